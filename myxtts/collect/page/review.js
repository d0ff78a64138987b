// The review page: clips to judge, and sentences to record.

const WORDS = {
  en: { show: "Show", review: "to review", kept: "accepted", dropped: "rejected", all: "all",
    play: "Play", accept: "Accept", reject: "Reject", back: "Undo", split: "Split here",
    other: "فارسی", saved: "Saved", none: "Nothing left", of: "of", title: "Review",
    keys: "Space: play, A: accept, R: reject, U: undo, E: edit the text (Esc: leave it), " +
      "S: split at the line, ↑ ↓: select, ← →: move the line. Ctrl+Enter accepts while editing.",
    turnRecord: "Record", turnReview: "Review clips", record: "Record", stop: "Stop",
    hear: "Listen", again: "Again", anyway: "Keep anyway", previous: "Back", next: "Skip",
    good: "Saved.", sounds: "of sound pairs covered", allRead: "All sentences are recorded.",
    no_speech: "No speech was detected.", too_quiet: "Too quiet: move closer.",
    clipped: "Too loud: the recording is clipped.", noisy: "Too much background noise.",
    other_length: "Unusual length for this sentence: was it read as written?",
    noMicrophone: "No microphone: allow it in the browser.",
    recordKeys: "Space: start and stop, L: listen, K: keep anyway, ↑ ↓: select a sentence.",
    splitText: "Put the cursor in the text where the second part begins, then split." },
  fa: { show: "نمایش", review: "برای بازبینی", kept: "پذیرفته", dropped: "ردشده", all: "همه",
    play: "پخش", accept: "پذیرفتن", reject: "رد کردن", back: "برگرداندن", split: "دو تکه کردن",
    other: "English", saved: "ذخیره شد", none: "چیزی نمانده است", of: "از", title: "بازبینی",
    keys: "Space پخش، A پذیرفتن، R رد کردن، U برگرداندن، E ویرایش متن (Esc خروج از متن)، " +
      "S دو تکه کردن در محل خط، ↑ ↓ انتخاب، ← → جابه‌جا کردن خط. در متن، Ctrl+Enter می‌پذیرد.",
    turnRecord: "ضبط", turnReview: "بازبینی قطعه‌ها", record: "ضبط", stop: "پایان ضبط",
    hear: "شنیدن", again: "دوباره", anyway: "همین خوب است", previous: "قبلی", next: "بعدی",
    good: "ذخیره شد.", sounds: "از جفت‌صداها پوشش داده شده", allRead: "همه خوانده شد.",
    no_speech: "صدایی شنیده نشد.", too_quiet: "صدا کم است: نزدیک‌تر شوید.",
    clipped: "صدا زیاد است: قله‌های موج بریده شده.", noisy: "نویز اتاق زیاد است.",
    other_length: "بلندتر یا کوتاه‌تر از این جمله است: همان که نوشته شده خوانده شد؟",
    noMicrophone: "میکروفون در دسترس نیست: در مرورگر اجازه بدهید.",
    recordKeys: "Space آغاز و پایان ضبط، L شنیدن، K نگه داشتن به هر حال، ↑ ↓ انتخاب جمله.",
    splitText: "مکان‌نما را در متن جایی بگذارید که تکهٔ دوم آغاز می‌شود، سپس دو تکه کنید." } };
// Reasons are written in English into review.csv.
const REASONS = {
  fa: {
    "no transcript": "متن ندارد", "no words recognized": "کلمه‌ای فهمیده نشد",
    "words repeated": "کلمه‌های تکراری", "text in another script": "متن به خطی دیگر است",
    "no pronunciation": "تلفظش معلوم نیست",
    "text and duration disagree": "متن با طول قطعه نمی‌خواند",
    "more than one voice": "بیش از یک صدا", "voice of few clips": "صدایی با قطعه‌های کم",
    "no voice found": "صدایی پیدا نشد", "not in the script": "در متنِ خوانده‌شده نیست",
    "split": "دو تکه شده", "decided in review": "در بازبینی تعیین شد",
    "first or last word uncertain": "کلمهٔ اول یا آخر قطعی نیست",
  },
};
const at = id => document.getElementById(id);
const audio = at("audio"), text = at("text"), canvas = at("wave");
let clips = [], current = null, peaks = [], language = document.documentElement.dataset.language;
try { language ??= localStorage.getItem("review-language"); } catch (error) { /* private */ }
language ??= navigator.language;
language = language.startsWith("fa") ? "fa" : "en";

function say() {
  const words = WORDS[language];
  document.documentElement.lang = language;
  document.documentElement.dir = language === "fa" ? "rtl" : "ltr";
  document.title = words.title;
  for (const one of document.querySelectorAll("[data-say]")) one.textContent = words[one.dataset.say];
  for (const id of ["play", "accept", "reject", "back", "split", "keys"]) at(id).textContent = words[id];
  for (const id of ["hear", "again", "anyway", "previous", "next", "recordKeys"])
    at(id).textContent = words[id];
  at("language").textContent = words.other;
  list();
  showPrompt();
}

// Recording: samples are collected while the microphone is open and sent as a wav.
let prompts = [], place = 0, microphone = null, taken = null, lastTake = null;

function turn(toRecording) {
  at("recording").hidden = !toRecording;
  at("reviewing").hidden = toRecording;
  at("turn").textContent = WORDS[language][toRecording ? "turnReview" : "turnRecord"];
  if (toRecording && !prompts.length) ask("prompts").then(answer => {
    prompts = answer.prompts;
    place = Math.max(0, prompts.findIndex(one => !one.done));
    showPrompt();
  }).catch(error => verdict([error.message], true));
}

function showPrompt() {
  const words = WORDS[language], one = prompts[place];
  at("turn").textContent = words[at("recording").hidden ? "turnRecord" : "turnReview"];
  at("record").textContent = taken ? words.stop : words.record;
  at("sentence").textContent = one ? one.text : "";
  at("anyway").hidden = at("again").hidden = !lastTake;
  at("hear").hidden = !lastTake && !one?.done;
  const done = prompts.filter(prompt => prompt.done).length;
  const covered = Math.round(100 * (prompts[Math.max(0, done - 1)]?.covered || 0));
  at("progress").textContent = prompts.length
    ? `${done} ${words.of} ${prompts.length}, ${done ? covered : 0} % ${words.sounds}` : "";
}

function verdict(names, isError) {
  at("verdict").textContent = names.map(name => WORDS[language][name] || name).join(" ");
  at("verdict").className = isError ? "error" : "faint";
}

async function openMicrophone() {
  const plain = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };
  const stream = await navigator.mediaDevices.getUserMedia({ audio: plain });
  const context = new AudioContext();
  await context.resume();
  const tap = context.createScriptProcessor(4096, 1, 1);
  tap.onaudioprocess = event => {
    const samples = event.inputBuffer.getChannelData(0);
    let power = 0;
    for (const sample of samples) power += sample * sample;
    at("level").value = 10 * Math.log10(power / samples.length + 1e-6);
    if (taken) taken.push(samples.slice());
  };
  context.createMediaStreamSource(stream).connect(tap);
  tap.connect(context.destination);
  return context;
}

function asWav(parts, rate) {
  const count = parts.reduce((sum, part) => sum + part.length, 0);
  const view = new DataView(new ArrayBuffer(44 + 2 * count));
  const name = (at, word) => [...word].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  name(0, "RIFF"); view.setUint32(4, 36 + 2 * count, true); name(8, "WAVEfmt ");
  view.setUint32(16, 16, true); view.setUint16(20, 1, true); view.setUint16(22, 1, true);
  view.setUint32(24, rate, true); view.setUint32(28, 2 * rate, true);
  view.setUint16(32, 2, true); view.setUint16(34, 16, true);
  name(36, "data"); view.setUint32(40, 2 * count, true);
  let to = 44;
  for (const part of parts) for (const sample of part) {
    view.setInt16(to, Math.max(-1, Math.min(1, sample)) * 32767, true);
    to += 2;
  }
  return new Blob([view], { type: "audio/wav" });
}

async function record() {
  if (!prompts.length) return;
  try {
    microphone = microphone || await openMicrophone();
  } catch (error) { return verdict(["noMicrophone"], true); }
  if (!taken) {
    taken = [];
    lastTake = null;
    verdict([]);
    return showPrompt();
  }
  lastTake = asWav(taken, Math.round(microphone.sampleRate));
  taken = null;
  await send(false);
}

async function send(evenSo) {
  const one = prompts[place], wav = lastTake;
  if (!one || !wav) return;
  const response = await fetch(`take/${encodeURIComponent(one.id)}?even_so=${evenSo}`,
    { method: "POST", body: wav, headers: { "Content-Type": "audio/wav" } });
  const answer = await response.json();
  if (!response.ok) verdict([answer.error.message], true);
  else if (answer.saved) {
    one.done = true;
    lastTake = null;
    place = Math.min(place + 1, prompts.length - 1);
    verdict(prompts.every(prompt => prompt.done) ? ["allRead"] : ["good"]);
    clips = (await ask("clips")).clips;
  } else verdict(answer.problems, true);
  showPrompt();
}

function hear() {
  const one = prompts[place];
  if (!lastTake && !one?.done) return;
  audio.src = lastTake ? URL.createObjectURL(lastTake) : "wavs/" + encodeURIComponent(one.id);
  audio.play();
}

function choose(by) {
  lastTake = null;
  taken = null;
  place = Math.min(Math.max(0, place + by), Math.max(0, prompts.length - 1));
  verdict([]);
  showPrompt();
}

async function ask(path, body) {
  const options = body && { method: "POST", body: JSON.stringify(body),
    headers: { "Content-Type": "application/json" } };
  const response = await fetch(path, options);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error.message);
  return answer;
}

function said(reason) {
  const [name, ...detail] = reason.split(": ");
  return [REASONS[language]?.[name] ?? name, ...detail].join(": ");
}

function tell(words, isError) {
  at("message").textContent = words;
  at("message").className = isError ? "error" : "faint";
}

const shown = () => clips.filter(one => at("filter").value === "all" || one.status === at("filter").value);

function list() {
  const words = WORDS[language], every = shown();
  const left = clips.filter(one => one.status === "review").length;
  at("count").textContent = `${words.review}: ${left} ${words.of} ${clips.length}`;
  at("list").replaceChildren(...every.slice(0, 2000).map(one => {
    const item = document.createElement("li");
    item.textContent = `${one.text || "–"}  ·  ${said(one.reason)}`;
    item.dir = "auto";
    item.dataset.id = one.id;
    item.setAttribute("aria-current", one === current);
    item.onclick = () => open(one);
    return item;
  }));
  document.querySelector("li[aria-current=true]")?.scrollIntoView({ block: "nearest" });
  at("reason").textContent = current ? said(current.reason) : "";
  if (!every.length) tell(words.none);
}

async function open(clip) {
  current = clip;
  audio.pause();
  peaks = [];
  at("name").textContent = clip ? clip.id : "";
  text.value = clip ? clip.text : "";
  list();
  draw();
  if (!clip) return audio.removeAttribute("src");
  const address = "wavs/" + encodeURIComponent(clip.id);
  const content = await (await fetch(address)).arrayBuffer();
  if (clip !== current) return;
  audio.src = URL.createObjectURL(new Blob([content], { type: "audio/wav" }));
  const decoded = await new OfflineAudioContext(1, 1, 22050).decodeAudioData(content);
  if (clip !== current) return;
  const samples = decoded.getChannelData(0), step = Math.max(1, Math.ceil(samples.length / 1200));
  for (let first = 0; first < samples.length; first += step) {
    let peak = 0;
    for (let i = first; i < Math.min(first + step, samples.length); i++)
      peak = Math.max(peak, Math.abs(samples[i]));
    peaks.push(peak);
  }
  draw();
}

function draw() {
  const pen = canvas.getContext("2d"), middle = canvas.height / 2;
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.fillStyle = getComputedStyle(canvas).color;
  const loudest = Math.max(0.05, ...peaks);
  peaks.forEach((peak, i) => {
    const height = Math.max(1, peak / loudest * middle);
    pen.fillRect(i / peaks.length * canvas.width, middle - height, 1, 2 * height);
  });
  pen.fillStyle = getComputedStyle(at("reason")).color;
  pen.fillRect(audio.duration ? audio.currentTime / audio.duration * canvas.width : 0, 0, 2, canvas.height);
}

function move(by) {
  const every = shown(), place = every.indexOf(current);
  if (every.length) return open(every[Math.min(every.length - 1, Math.max(0, place + by))]);
}

async function decide(status) {
  if (!current) return;
  const clip = current, every = shown(), place = every.indexOf(clip);
  try {
    await ask("decide", { id: clip.id, status, text: text.value });
  } catch (error) { return tell(error.message, true); }
  clip.status = status;
  clip.text = text.value.trim().replace(/\s+/g, " ");
  tell(`${WORDS[language].saved}: ${WORDS[language][status]}`);
  const after = shown();
  await open(after.includes(clip) ? after[after.indexOf(clip) + 1] || clip
    : after[Math.min(place, after.length - 1)] || null);
}

async function split() {
  if (!current) return;
  const cut = text.selectionStart, words = text.value;
  if (!cut || cut >= words.length) { text.focus(); return tell(WORDS[language].splitText, true); }
  try {
    const { ids } = await ask("split",
      { id: current.id, at: audio.currentTime, texts: [words.slice(0, cut), words.slice(cut)] });
    clips = (await ask("clips")).clips;
    await open(clips.find(one => one.id === ids[0]));
    tell(WORDS[language].saved);
  } catch (error) { tell(error.message, true); }
}

const play = () => audio.paused ? audio.play() : audio.pause();
const seek = by => { audio.currentTime = Math.max(0, audio.currentTime + by); draw(); };
const KEYS = { " ": play, a: () => decide("kept"), r: () => decide("dropped"),
  u: () => decide("review"), s: split, e: () => text.focus(), ArrowDown: () => move(1),
  ArrowUp: () => move(-1), ArrowLeft: () => seek(-0.1), ArrowRight: () => seek(0.1) };

const RECORD_KEYS = { " ": record, l: hear, k: () => send(true), ArrowDown: () => choose(1),
  ArrowUp: () => choose(-1) };

document.addEventListener("keydown", event => {
  if (event.target === text) {
    if (event.key === "Escape") text.blur();
    if (event.key === "Enter" && event.ctrlKey) { event.preventDefault(); decide("kept"); text.blur(); }
    return;
  }
  if (event.target.tagName === "SELECT" || event.ctrlKey || event.metaKey || event.altKey) return;
  // By the place of the key too: a Persian keyboard gives other letters.
  const keys = at("recording").hidden ? KEYS : RECORD_KEYS;
  const name = keys[event.key] ? event.key : event.code.replace("Key", "").toLowerCase();
  if (keys[name]) { event.preventDefault(); keys[name](); }
});
canvas.onclick = event => {
  if (audio.duration) audio.currentTime = event.offsetX / canvas.clientWidth * audio.duration;
  draw();
};
audio.ontimeupdate = draw;
at("play").onclick = play;
at("accept").onclick = () => decide("kept");
at("reject").onclick = () => decide("dropped");
at("back").onclick = () => decide("review");
at("split").onclick = split;
at("filter").onchange = () => { at("filter").blur(); open(shown()[0] || null); };
at("language").onclick = () => {
  language = language === "fa" ? "en" : "fa";
  try { localStorage.setItem("review-language", language); } catch (error) { /* private */ }
  at("language").blur();
  say();
};
at("record").onclick = () => { at("record").blur(); record(); };
at("hear").onclick = hear;
at("again").onclick = () => { at("again").blur(); lastTake = null; record(); };
at("anyway").onclick = () => send(true);
at("previous").onclick = () => choose(-1);
at("next").onclick = () => choose(1);
at("turn").onclick = () => { at("turn").blur(); turn(at("recording").hidden); };
say();
if (location.hash === "#record") turn(true);
ask("clips").then(answer => {
  clips = answer.clips;
  tell("");
  if (!shown().length) at("filter").value = "kept";
  return open(shown()[0] || null);
}).catch(error => tell(error.message, true));
