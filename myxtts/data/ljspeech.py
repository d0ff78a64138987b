"""The public name of `myxtts.data.corpus.dataset.LJSpeechDataset`."""

from myxtts.data.corpus.dataset import LJSpeechDataset as LJSpeechDataset
