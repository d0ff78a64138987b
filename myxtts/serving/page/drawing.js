// Pictures of sound on canvases.

import { MELS } from "./sound.js";

const RANGE_DB = 70;
// From silence to loud; readable on light and dark ground and for the colour-blind.
const COLOURS = [[13, 8, 60], [84, 15, 109], [187, 55, 84], [249, 142, 9], [252, 255, 164]];

export function drawWave(canvas, samples) {
  const context = sized(canvas);
  const { width, height } = canvas;
  context.clearRect(0, 0, width, height);
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
    const y = (height / 2) * (1 - high / peak);
    context.fillRect(x, y, 1, Math.max(1, ((height / 2) * (high - low)) / peak));
  }
}

export function drawMel(canvas, frames) {
  const context = sized(canvas);
  if (!frames.length) return;
  const loudest = frames.reduce((most, frame) => Math.max(most, ...frame), -Infinity);
  const picture = new ImageData(frames.length, MELS);
  frames.forEach((frame, x) => {
    for (let band = 0; band < MELS; band++) {
      const [red, green, blue] = colour(1 + (frame[band] - loudest) / RANGE_DB);
      picture.data.set([red, green, blue, 255], 4 * ((MELS - 1 - band) * frames.length + x));
    }
  });
  const small = new OffscreenCanvas(frames.length, MELS);
  small.getContext("2d").putImageData(picture, 0, 0);
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
}

function colour(value) {
  const place = Math.max(0, Math.min(0.9999, value)) * (COLOURS.length - 1);
  const [from, to] = COLOURS.slice(Math.floor(place), Math.floor(place) + 2);
  return from.map((channel, i) => channel + (to[i] - channel) * (place % 1));
}

function sized(canvas) {
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * scale));
  canvas.height = Math.max(1, Math.round(canvas.clientHeight * scale));
  return canvas.getContext("2d");
}
