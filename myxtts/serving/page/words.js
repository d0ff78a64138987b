// The words of the page in its two languages.

const WORDS = {
  en: {
    interface: "API", token: "Token of this server", useToken: "Use it", text: "Text",
    model: "Model", voice: "Voice", language: "Language", speed: "Speed", more: "More", temperature: "Liveliness", steps: "Sampling steps",
    compare: "Compare with", nothing: "none", speak: "Speak", stop: "Stop",
    addVoice: "Add a voice", voiceName: "Name of the voice", file: "Recording",
    addHint: "Record or choose a few seconds of one speaker, without music or noise.",
    record: "Record", stopRecording: "Stop recording", save: "Save voice",
    remove: "Delete the chosen voice", consent: "Clone only voices of people who agreed to this.",
    noVoice: "no voices yet: add one below", speaking: "Speaking …", download: "Download wav",
    wave: "Waveform", seconds: "s", semicolon: ";", firstAudio: "first audio after",
    saved: "Saved the voice", removed: "Deleted the voice", recording: "Recording …",
    noMicrophone: "The microphone cannot be used", notAudio: "This file is not readable as audio",
    really: "Delete this voice?", stopped: "Stopped", done: "Done", offline: "The server is not responding",
  },
  fa: {
    interface: "واسط برنامه", token: "توکن این سرور", useToken: "استفاده", text: "متن",
    model: "مدل", voice: "صدا", language: "زبان", speed: "سرعت", more: "بیشتر", temperature: "تنوع لحن", steps: "گام‌های نمونه‌برداری",
    compare: "مقایسه با", nothing: "هیچ", speak: "بخوان", stop: "توقف",
    addVoice: "افزودن صدا", voiceName: "نام صدا", file: "فایل صوتی",
    addHint: "چند ثانیه از صدای یک گوینده را ضبط یا انتخاب کنید، بدون موسیقی و سروصدا.",
    record: "ضبط", stopRecording: "پایان ضبط", save: "ذخیرهٔ صدا",
    remove: "پاک کردن صدای انتخاب‌شده", consent: "تنها صدای کسانی را بسازید که اجازه داده‌اند.",
    noVoice: "هنوز صدایی نیست: پایین‌تر بیفزایید", speaking: "در حال خواندن …", download: "دریافت wav",
    wave: "شکل موج", seconds: "ثانیه", semicolon: "؛", firstAudio: "نخستین صدا پس از",
    saved: "صدا ذخیره شد", removed: "صدا پاک شد", recording: "در حال ضبط …",
    noMicrophone: "میکروفون در دسترس نیست", notAudio: "این فایل را نمی‌توان به شکل صدا خواند",
    really: "این صدا پاک شود؟", stopped: "متوقف شد", done: "تمام شد", offline: "سرور پاسخ نمی‌دهد",
  },
};

// By the language of the speech. A page opens with one of them as its text.
export const EXAMPLES = {
  en: "Good evening! The garden was quiet, and rain was tapping at the window.",
  fa: "عصر بخیر! باغ آرام بود و باران آهسته به پنجره می‌خورد.",
  de: "Guten Abend! Der Garten war still, und Regen klopfte ans Fenster.",
  nl: "Goedenavond! De tuin was stil en de regen tikte tegen het raam.",
};

function stored() {
  try { return localStorage.getItem("myxtts-language"); } catch { return null; }
}

let language = stored() ?? (navigator.language.startsWith("fa") ? "fa" : "en");

export function languageOfPage() {
  return language;
}

export function word(name) {
  return WORDS[language][name];
}

export function number(value, digits = 1) {
  return value.toLocaleString(language, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export function nameOfLanguage(tag) {
  try { return `${new Intl.DisplayNames([language], { type: "language" }).of(tag)} (${tag})`; } catch { return tag; }
}

export function showWords() {
  const root = document.documentElement;
  root.lang = language;
  root.dir = language === "fa" ? "rtl" : "ltr";
  for (const element of document.querySelectorAll("[data-word]")) {
    element.textContent = word(element.dataset.word);
  }
  const button = document.getElementById("other-language");
  if (button) {
    button.textContent = language === "fa" ? "English" : "فارسی";
    button.lang = language === "fa" ? "en" : "fa";
  }
}

export function changeLanguage() {
  language = language === "fa" ? "en" : "fa";
  try { localStorage.setItem("myxtts-language", language); } catch { /* private mode */ }
  showWords();
}
