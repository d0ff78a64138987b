// One spoken text on the page: its pictures while it is made, then controls and a file.

import { drawMel, drawWave } from "./drawing.js";
import { MelMeter, PcmReader, RATE_HZ, StreamPlayer, joined, wavOf } from "./sound.js";
import { ask } from "./server.js";
import { number, word } from "./words.js";

const MILLISECONDS_BETWEEN_PICTURES = 200;

export class Result {
  constructor(place, title) {
    this.pieces = [];
    this.meter = new MelMeter();
    this.card = document.createElement("article");
    this.card.className = "panel";
    this.card.append(
      heading(title),
      (this.wave = picture("wave")),
      (this.mel = picture("mel")),
      (this.facts = Object.assign(document.createElement("p"), { className: "faint" })),
    );
    place.append(this.card);
  }

  // Asks the server and plays what comes; ends when all was heard.
  async speak(asked, signal) {
    const started = performance.now();
    const answer = await ask("/v1/audio/speech", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ ...asked, response_format: "pcm" }),
      signal,
    });
    const player = new StreamPlayer();
    signal.addEventListener("abort", () => player.close());
    try {
      const reader = answer.body.getReader();
      const pcm = new PcmReader();
      let drawn = 0;
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        const samples = pcm.read(value);
        if (!samples.length) continue;
        this.firstSeconds ??= (performance.now() - started) / 1000;
        player.add(samples);
        this.pieces.push(samples);
        this.meter.add(samples);
        if (performance.now() - drawn > MILLISECONDS_BETWEEN_PICTURES) {
          this.draw();
          drawn = performance.now();
        }
      }
      this.finish(asked.voice);
      await player.finish(signal);
    } finally {
      player.close();
    }
  }

  draw() {
    this.samples = joined(this.pieces);
    drawWave(this.wave, this.samples);
    drawMel(this.mel, this.meter.frames);
    this.describe();
  }

  describe() {
    if (!this.samples) return;
    const seconds = `${number(this.samples.length / RATE_HZ)} ${word("seconds")}`;
    this.wave.setAttribute("aria-label", `${word("wave")}, ${seconds}`);
    this.mel.setAttribute("aria-label", `${word("mel")}, ${seconds}`);
    this.facts.textContent = `${seconds}${word("semicolon")} ${word("firstAudio")} ${number(this.firstSeconds, 2)} ${word("seconds")}`;
    if (this.link) this.link.textContent = word("download");
  }

  finish(voice) {
    const url = URL.createObjectURL(wavOf(joined(this.pieces), RATE_HZ));
    const audio = Object.assign(document.createElement("audio"), { controls: true, src: url });
    this.link = Object.assign(document.createElement("a"), { href: url, download: `${voice}.wav` });
    this.card.append(audio, this.link);
    this.draw();
  }

  remove() {
    if (this.link) URL.revokeObjectURL(this.link.href);
    this.card.remove();
  }
}

function heading(title) {
  const made = document.createElement("h2");
  // A name of the other direction stays in its place.
  made.append(Object.assign(document.createElement("bdi"), { textContent: title }));
  return made;
}

function picture(kind) {
  const canvas = document.createElement("canvas");
  canvas.className = kind;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", word(kind));
  return canvas;
}
