// Sends the samples of the microphone to the page.

class RecorderProcessor extends AudioWorkletProcessor {
  process([input]) {
    if (input.length) this.port.postMessage(input[0].slice());
    return true;
  }
}

registerProcessor("recorder", RecorderProcessor);
