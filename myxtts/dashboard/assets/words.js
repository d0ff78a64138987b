"use strict";
// Everything that the page says, in both languages. Names of metrics that are not here are shown as
// they stand in metrics.jsonl.

const WORDS = {
  en: {
    skip: "Skip to the runs", title: "dashboard", axis: "Horizontal axis", steps: "steps",
    hours: "hours of training", smoothing: "Smoothing", log_scale: "Logarithmic losses",
    language: "Language", theme: "Theme", auto: "as the system", light: "light", dark: "dark",
    runs: "Runs", advice: "Advice", losses: "Losses", speech: "Speech by step",
    speech_note: "Measured beside the run (evaluation.measure_every) or by myxtts evaluate. A dashed line is the same measure of the recordings.",
    time: "Where the time goes",
    time_note: "Share of each interval between two lines of metrics.jsonl. Start-up and compiling come before the first one and are in the table.",
    device: "Device and buffer", samples: "Samples", optimizer: "Optimizer",
    samples_note: "The same held-out sentence at every evaluation, newest first, beside its recording.",
    step: "step", of: "of", trained: "trained for", useful: "useful utilisation",
    after_warmup: "compilations after warm-up", best: "best", devices: "device", mode: "mode",
    strategy: "strategy", updated: "last line", recording: "recording", recordings: "recordings",
    alignment: "alignment at step {0}", sample_of: "sample of step {0}",
    more: "Show {0} more", left_out: "{0} more samples are in the run folder.",
    live: "live, read at {0}", still: "read at {0}", exported: "exported; not updated",
    lost: "No answer from the dashboard: shows what was read at {0}",
    loading: "reading the runs", waiting: "no metrics yet",
    total: "total", seconds: "Seconds of the whole run",
    better_lower: "lower is better", better_higher: "higher is better",
    states: { running: "running", complete: "complete", "stopped early": "stopped early",
      interrupted: "interrupted", stopped: "not running" },
    buckets: { start_up: "start-up", compile: "compiling", data_wait: "waiting for data",
      compute: "computing", host: "host", evaluation: "evaluation", checkpoint: "checkpoints" },
    metrics: {
      loss: "loss", validation_loss: "validation loss", wer: "word error rate",
      cer: "character error rate", similarity: "voice similarity",
      own_similarity: "voice similarity (own encoder)", dnsmos: "quality (DNSMOS)",
      distillmos: "quality (DistillMOS)", useful_utilisation: "useful utilisation",
      steady_utilisation: "utilisation of the steps alone", valid_frame_ratio: "real frames per computed frame",
      buffer: "buffer: batches ready, and its size", compilations_after_warmup: "compilations after warm-up",
      compilations: "compilations", traces: "traces", step_seconds: "seconds per step",
      data_wait_seconds: "seconds per step waiting for data", learning_rate: "learning rate",
      gradient_norm: "gradient norm", account: "account of time",
    },
  },
  fa: {
    skip: "رفتن به اجراها", title: "داشبورد", axis: "محور افقی", steps: "گام",
    hours: "ساعت آموزش", smoothing: "هموارسازی", log_scale: "زیان‌ها لگاریتمی",
    language: "زبان", theme: "پوسته", auto: "مانند سیستم", light: "روشن", dark: "تیره",
    runs: "اجراها", advice: "توصیه‌ها", losses: "زیان‌ها", speech: "گفتار در هر گام",
    speech_note: "در کنار اجرا (evaluation.measure_every) یا با myxtts evaluate اندازه گرفته شده است. خط‌چین همان سنجه برای صداهای ضبط‌شده است.",
    time: "زمان صرف چه شده است",
    time_note: "سهم هر کار از فاصلهٔ میان دو سطر metrics.jsonl. راه‌اندازی و کامپایل پیش از نخستین سطرند و در جدول آمده‌اند.",
    device: "دستگاه و میان‌گیر", samples: "نمونه‌ها", optimizer: "بهینه‌ساز",
    samples_note: "یک جملهٔ کنارگذاشته در هر ارزیابی، تازه‌ترین در آغاز، کنار صدای ضبط‌شدهٔ آن.",
    step: "گام", of: "از", trained: "زمان آموزش", useful: "بهره‌گیری مفید",
    after_warmup: "کامپایل پس از گرم کردن", best: "بهترین", devices: "دستگاه", mode: "حالت",
    strategy: "راهبرد", updated: "آخرین سطر", recording: "صدای ضبط‌شده", recordings: "صداهای ضبط‌شده",
    alignment: "هم‌ترازی در گام {0}", sample_of: "نمونهٔ گام {0}",
    more: "{0} نمونهٔ دیگر", left_out: "{0} نمونهٔ دیگر در پوشهٔ اجرا هست.",
    live: "زنده، خوانده‌شده در {0}", still: "خوانده‌شده در {0}", exported: "برون‌بری‌شده؛ به‌روز نمی‌شود",
    lost: "داشبورد پاسخ نمی‌دهد: آنچه در {0} خوانده شد نمایش داده می‌شود",
    loading: "در حال خواندن اجراها", waiting: "هنوز سنجه‌ای نیست",
    total: "جمع", seconds: "ثانیه‌های کل اجرا",
    better_lower: "کمتر بهتر است", better_higher: "بیشتر بهتر است",
    states: { running: "در حال اجرا", complete: "کامل", "stopped early": "توقف زودهنگام",
      interrupted: "قطع‌شده", stopped: "متوقف" },
    buckets: { start_up: "راه‌اندازی", compile: "کامپایل", data_wait: "انتظار برای داده",
      compute: "محاسبه", host: "میزبان", evaluation: "ارزیابی", checkpoint: "نقطهٔ بازیابی" },
    metrics: {
      loss: "زیان", prior_loss: "زیان پیشین", duration_loss: "زیان دیرش", flow_loss: "زیان جریان",
      adversarial_loss: "زیان تمیزدهنده", validation_adversarial_loss: "زیان تمیزدهنده در ارزیابی",
      spectral_loss: "زیان طیفی", refining_loss: "زیان تصحیح", discriminator_loss: "زیان تمیزدهنده‌ها",
      validation_loss: "زیان ارزیابی", validation_prior_loss: "زیان پیشین ارزیابی",
      validation_duration_loss: "زیان دیرش ارزیابی", validation_flow_loss: "زیان جریان ارزیابی",
      validation_spectral_loss: "زیان طیفی ارزیابی", validation_refining_loss: "زیان تصحیح ارزیابی",
      validation_discriminator_loss: "زیان تمیزدهنده‌ها در ارزیابی", validation_mel_distance: "فاصلهٔ مل در ارزیابی",
      wer: "نرخ خطای واژه", cer: "نرخ خطای نویسه", similarity: "شباهت صدا",
      own_similarity: "شباهت صدا (رمزگذار خود مدل)", dnsmos: "کیفیت (DNSMOS)",
      distillmos: "کیفیت (DistillMOS)", mel_cepstral_distance: "فاصلهٔ مل‌کپستروم", pitch_error: "خطای زیروبمی",
      voicing_error: "خطای واک", clipping: "بریدگی", real_time_factor: "ضریب زمان واقعی",
      useful_utilisation: "بهره‌گیری مفید", steady_utilisation: "بهره‌گیری در خود گام‌ها",
      valid_frame_ratio: "قاب‌های واقعی به محاسبه‌شده", buffer: "میان‌گیر: دسته‌های آماده و اندازهٔ آن",
      compilations_after_warmup: "کامپایل پس از گرم کردن", compilations: "کامپایل‌ها", traces: "ردگیری‌ها",
      step_seconds: "ثانیه در هر گام", data_wait_seconds: "ثانیهٔ انتظار برای داده در هر گام",
      learning_rate: "نرخ یادگیری", gradient_norm: "نرم گرادیان", account: "حساب زمان",
    },
  },
};

let language = "en";

function word(name, ...values) {
  const text = WORDS[language][name];
  return text.replace(/\{(\d)\}/g, (_, place) => values[place]);
}

// `group` is metrics, buckets or states; its names come from the run and may be anything.
function named(group, name) {
  const names = WORDS[language][group];
  return Object.hasOwn(names, name) ? names[name] : name.replaceAll("_", " ");
}

function locale() {
  return language === "fa" ? "fa-IR" : "en";
}

function number(value) {
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-3)) {
    const [digits, power] = value.toExponential(2).split("e");
    const shown = new Intl.NumberFormat(locale(), { maximumFractionDigits: 2 });
    return `${shown.format(Number(digits))}e${shown.format(Number(power))}`;
  }
  const digits = Number.isInteger(value) ? 0 : size >= 100 ? 1 : size >= 1 ? 3 : 4;
  return new Intl.NumberFormat(locale(), { maximumFractionDigits: digits }).format(value);
}

function percent(share) {
  return new Intl.NumberFormat(locale(), { style: "percent", maximumFractionDigits: 1 }).format(share);
}

function duration(hours) {
  const seconds = hours * 3600;
  const [value, unit] = seconds < 90 ? [seconds, "second"] : seconds < 5400 ? [seconds / 60, "minute"] : [hours, "hour"];
  return new Intl.NumberFormat(locale(), {
    style: "unit", unit, unitDisplay: "long", maximumFractionDigits: unit === "hour" ? 1 : 0,
  }).format(value);
}

function clock(date) {
  return new Intl.DateTimeFormat(locale(), { timeStyle: "medium" }).format(date);
}

function dayAndClock(date) {
  return new Intl.DateTimeFormat(locale(), { dateStyle: "medium", timeStyle: "short" }).format(date);
}
