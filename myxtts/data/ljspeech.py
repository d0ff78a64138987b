"""The public name of `myxtts.data.metadata.LJSpeechDataset`."""

from myxtts.data.metadata import LJSpeechDataset as LJSpeechDataset
