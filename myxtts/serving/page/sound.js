// Samples: played while they arrive, written as wav, measured in mel bands. No page, no server.

export const RATE_HZ = 24000;
const FFT_SIZE = 1024;
const HOP = 256;
export const MELS = 80;

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

// Decibels in mel bands, frame by frame as samples come.
export class MelMeter {
  constructor() {
    this.frames = [];
    this.rest = new Float32Array(0);
    this.window = Float32Array.from({ length: FFT_SIZE }, (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / FFT_SIZE));
    this.filters = melFilters();
  }

  add(samples) {
    const all = joined([this.rest, samples]);
    let start = 0;
    for (; start + FFT_SIZE <= all.length; start += HOP) {
      this.frames.push(this.frame(all.subarray(start, start + FFT_SIZE)));
    }
    this.rest = all.slice(start);
  }

  frame(samples) {
    const real = new Float64Array(FFT_SIZE);
    const imaginary = new Float64Array(FFT_SIZE);
    for (let i = 0; i < FFT_SIZE; i++) real[i] = samples[i] * this.window[i];
    fft(real, imaginary);
    return Float32Array.from(this.filters, (filter) => {
      let power = 1e-10;
      for (const [bin, weight] of filter) power += weight * (real[bin] ** 2 + imaginary[bin] ** 2);
      return 10 * Math.log10(power);
    });
  }
}

function melFilters() {
  const mel = (hz) => 2595 * Math.log10(1 + hz / 700);
  const hz = (value) => 700 * (10 ** (value / 2595) - 1);
  const top = mel(RATE_HZ / 2);
  const edges = Array.from({ length: MELS + 2 }, (_, i) => (hz((top * i) / (MELS + 1)) * FFT_SIZE) / RATE_HZ);
  return Array.from({ length: MELS }, (_, band) => {
    const [low, middle, high] = edges.slice(band, band + 3);
    const filter = [];
    for (let bin = Math.floor(low); bin <= Math.ceil(high) && bin <= FFT_SIZE / 2; bin++) {
      const weight = Math.min((bin - low) / (middle - low), (high - bin) / (high - middle));
      if (weight > 0) filter.push([bin, weight]);
    }
    // Narrow low bands may lie between two bins.
    return filter.length ? filter : [[Math.round(middle), 1]];
  });
}

function fft(real, imaginary) {
  const size = real.length;
  for (let i = 1, j = 0; i < size; i++) {
    let bit = size >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      [real[i], real[j]] = [real[j], real[i]];
      [imaginary[i], imaginary[j]] = [imaginary[j], imaginary[i]];
    }
  }
  for (let length = 2; length <= size; length <<= 1) {
    const angle = (-2 * Math.PI) / length;
    for (let start = 0; start < size; start += length) {
      for (let k = 0; k < length / 2; k++) {
        const [c, s] = [Math.cos(angle * k), Math.sin(angle * k)];
        const [a, b] = [start + k, start + k + length / 2];
        const re = real[b] * c - imaginary[b] * s;
        const im = real[b] * s + imaginary[b] * c;
        real[b] = real[a] - re;
        imaginary[b] = imaginary[a] - im;
        real[a] += re;
        imaginary[a] += im;
      }
    }
  }
}
