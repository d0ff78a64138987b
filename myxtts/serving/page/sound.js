// Samples: played while they arrive, written as wav, drawn. No server.

export const RATE_HZ = 24000;

// Plays pieces one after the other as they come.
export class StreamPlayer {
  constructor() {
    this.context = new AudioContext({ sampleRate: RATE_HZ });
    this.end = 0;
  }

  add(samples) {
    const buffer = this.context.createBuffer(1, samples.length, RATE_HZ);
    buffer.copyToChannel(samples, 0);
    const source = this.context.createBufferSource();
    source.buffer = buffer;
    source.connect(this.context.destination);
    // A little reserve, so that the next piece is there in time.
    this.end = Math.max(this.end, this.context.currentTime + 0.1);
    source.start(this.end);
    this.end += buffer.duration;
  }

  async finish(signal) {
    const left = (this.end - this.context.currentTime) * 1000;
    if (left > 0 && !signal.aborted) {
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, left + 50);
        signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); });
      });
    }
  }

  close() {
    if (this.context.state !== "closed") this.context.close();
  }
}

// Bytes of 16-bit samples in pieces of any size to numbers in [-1, 1].
export class PcmReader {
  constructor() { this.odd = null; }

  read(bytes) {
    if (this.odd !== null) {
      const joined = new Uint8Array(bytes.length + 1);
      joined[0] = this.odd;
      joined.set(bytes, 1);
      bytes = joined;
    }
    this.odd = bytes.length % 2 ? bytes[bytes.length - 1] : null;
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    const samples = new Float32Array(bytes.length >> 1);
    for (let i = 0; i < samples.length; i++) samples[i] = view.getInt16(2 * i, true) / 32768;
    return samples;
  }
}

export function joined(pieces) {
  const whole = new Float32Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

export function wavOf(samples, rateHz) {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const text = (at, value) => [...value].forEach((c, i) => view.setUint8(at + i, c.charCodeAt(0)));
  text(0, "RIFF");
  view.setUint32(4, 36 + 2 * samples.length, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rateHz, true);
  view.setUint32(28, 2 * rateHz, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, "data");
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((value, i) => view.setInt16(44 + 2 * i, Math.round(32767 * Math.max(-1, Math.min(1, value))), true));
  return new Blob([view], { type: "audio/wav" });
}

// Any file that the browser can decode, mono and at most so long.
export async function decoded(bytes, mostSeconds) {
  const context = new AudioContext();
  try {
    const audio = await context.decodeAudioData(bytes);
    const length = Math.min(audio.length, Math.floor(mostSeconds * audio.sampleRate));
    const mono = new Float32Array(length);
    for (let channel = 0; channel < audio.numberOfChannels; channel++) {
      const samples = audio.getChannelData(channel);
      for (let i = 0; i < length; i++) mono[i] += samples[i] / audio.numberOfChannels;
    }
    return wavOf(mono, audio.sampleRate);
  } finally {
    context.close();
  }
}

export function drawWave(canvas, samples) {
  const scale = window.devicePixelRatio || 1;
  const width = (canvas.width = Math.max(1, Math.round(canvas.clientWidth * scale)));
  const height = (canvas.height = Math.max(1, Math.round(canvas.clientHeight * scale)));
  const context = canvas.getContext("2d");
  context.fillStyle = getComputedStyle(canvas).color;
  const peak = samples.reduce((most, value) => Math.max(most, Math.abs(value)), 0.05);
  for (let x = 0; x < width; x++) {
    const first = Math.floor((x * samples.length) / width);
    const last = Math.max(first + 1, Math.floor(((x + 1) * samples.length) / width));
    let low = 0;
    let high = 0;
    for (let i = first; i < last && i < samples.length; i++) {
      low = Math.min(low, samples[i]);
      high = Math.max(high, samples[i]);
    }
    context.fillRect(x, (height / 2) * (1 - high / peak), 1, Math.max(1, ((height / 2) * (high - low)) / peak));
  }
}
