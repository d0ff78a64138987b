// One spoken text on the page: its waveform while it is made, then controls and a file.

import { PcmReader, RATE_HZ, StreamPlayer, drawWave, joined, wavOf } from "./sound.js";
import { ask } from "./server.js";
import { number, word } from "./words.js";

const MILLISECONDS_BETWEEN_DRAWINGS = 200;

export class Result {
  constructor(place, title) {
    this.pieces = [];
    this.card = document.createElement("article");
    this.card.className = "panel";
    this.card.append(
      heading(title),
      (this.wave = document.createElement("canvas")),
      (this.facts = Object.assign(document.createElement("p"), { className: "faint" })),
    );
    this.wave.className = "wave";
    this.wave.setAttribute("role", "img");
    this.wave.setAttribute("aria-label", word("wave"));
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
        if (performance.now() - drawn > MILLISECONDS_BETWEEN_DRAWINGS) {
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
    this.describe();
  }

  describe() {
    if (!this.samples) return;
    const seconds = `${number(this.samples.length / RATE_HZ)} ${word("seconds")}`;
    this.wave.setAttribute("aria-label", `${word("wave")}, ${seconds}`);
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
