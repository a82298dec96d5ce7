// Writes llama.cpp's logits along given tokens, in the format of engine_logits, for the peer's row
// of the fidelity table. fidelity.py builds it with the library of bench/llama.sh; our CMake does
// not.
//
//   llama_logits MODEL.gguf TOKENS.txt OUTPUT THREADS
//
// TOKENS.txt: the window's size, then the ids, separated by white space. Windows, rows and OUTPUT
// are those of engine_logits.cpp.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "llama.h"

namespace {

[[noreturn]] void die(const char* message) {
  std::fprintf(stderr, "%s\n", message);
  std::exit(1);
}

llama_context* open_context(const char* path, std::uint32_t tokens, int threads) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_backend_init();
  llama_model* const model = llama_model_load_from_file(path, llama_model_default_params());
  if (model == nullptr) die("llama.cpp cannot read the model");
  llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = params.n_ubatch = tokens;
  params.n_threads = params.n_threads_batch = threads;
  llama_context* const context = llama_init_from_model(model, params);
  if (context == nullptr) die("llama.cpp cannot make a context");
  return context;
}

// Evaluates one window and writes the rows of its second half except the last.
void write_window(llama_context* context, const std::int32_t* tokens, std::int32_t size,
                  std::int32_t vocabulary, std::ofstream& out) {
  llama_memory_clear(llama_get_memory(context), true);
  llama_batch batch = llama_batch_init(size, 0, 1);
  batch.n_tokens = size;
  for (std::int32_t i = 0; i < size; ++i) {
    batch.token[i] = tokens[i];
    batch.pos[i] = i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = i >= size / 2 && i < size - 1 ? 1 : 0;
  }
  if (llama_decode(context, batch) != 0) die("llama.cpp cannot evaluate the tokens");
  for (std::int32_t i = size / 2; i < size - 1; ++i) {
    out.write(reinterpret_cast<const char*>(llama_get_logits_ith(context, i)),
              std::streamsize{vocabulary} * 4);
  }
  llama_batch_free(batch);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) die("usage: llama_logits MODEL.gguf TOKENS.txt OUTPUT THREADS");
  std::ifstream in(argv[2]);
  std::int32_t size = 0;
  std::vector<std::int32_t> tokens;
  in >> size;
  for (std::int32_t token = 0; in >> token;) tokens.push_back(token);
  if (size < 4 || tokens.size() < static_cast<std::size_t>(size)) die("no whole window of tokens");
  const auto windows = static_cast<std::int32_t>(tokens.size()) / size;

  llama_context* const context =
      open_context(argv[1], static_cast<std::uint32_t>(size), std::atoi(argv[4]));
  const std::int32_t vocabulary =
      llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(context)));
  std::ofstream out(argv[3], std::ios::binary);
  const std::int32_t shape[2] = {windows * (size - 1 - size / 2), vocabulary};
  out.write("MLOGITS1", 8).write(reinterpret_cast<const char*>(shape), sizeof shape);
  for (std::int32_t w = 0; w < windows; ++w) {
    write_window(context, tokens.data() + std::ptrdiff_t{w} * size, size, vocabulary, out);
  }
  out.close();
  if (!out) die("cannot write the output");
  return 0;
}
