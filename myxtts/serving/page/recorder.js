// The microphone as samples.

import { joined, wavOf } from "./sound.js";

export class Recorder {
  async start() {
    this.stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
    this.context = new AudioContext();
    await this.context.audioWorklet.addModule("/page/recorder-worklet.js");
    this.pieces = [];
    this.node = new AudioWorkletNode(this.context, "recorder");
    this.node.port.onmessage = (event) => this.pieces.push(event.data);
    this.context.createMediaStreamSource(this.stream).connect(this.node);
  }

  // A wav file of what was heard.
  stop() {
    for (const track of this.stream.getTracks()) track.stop();
    const rateHz = this.context.sampleRate;
    this.context.close();
    return wavOf(joined(this.pieces), rateHz);
  }
}
