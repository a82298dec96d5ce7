// The names of the files that batches were uploaded as: people know a batch by its file, and the
// broker by an id.
const files = new Map();

// Takes a list of batches as /v1/batches gives it.
export function learnNames(batches) {
  for (const { id, metadata } of batches) if (metadata?.file) files.set(id, metadata.file);
}

export function batchName(batch) {
  return files.get(batch) ?? batch;
}
