// Writes llama.cpp's logits along given tokens, in the format of engine_logits, for the peer's row
// of the fidelity table. fidelity.py builds it with the prebuilt library that bench/llama.sh
// fetches; our CMake does not.
//
//   llama_logits MODEL.gguf TOKENS.txt OUTPUT THREADS LIBRARIES [f16|f32]
//
// TOKENS.txt: the size of a window, the first row of it to write and the row to stop before, then
// the ids, separated by white space. LIBRARIES is the folder of llama.cpp's libraries. Without the
// last argument, keys, values and attention are llama.cpp's default: f16 and flash attention, which
// rounds more than the keys and values. With it, they have that type and attention is the plain
// one.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

#include "ggml-backend.h"
#include "llama.h"

namespace {

[[noreturn]] void die(const char* message) {
  std::fprintf(stderr, "%s\n", message);
  std::exit(1);
}

struct Windows {
  std::int32_t size = 0, first = 0, end = 0;  // rows [first, end) of each are written
  std::vector<std::int32_t> tokens;

  std::int32_t count() const { return static_cast<std::int32_t>(tokens.size()) / size; }
};

Windows read_windows(const char* path) {
  std::ifstream in(path);
  Windows out;
  in >> out.size >> out.first >> out.end;
  for (std::int32_t token = 0; in >> token;) out.tokens.push_back(token);
  if (out.size < 1 || out.tokens.size() < static_cast<std::size_t>(out.size)) {
    die("no whole window of tokens");
  }
  if (out.first < 0 || out.first >= out.end || out.end > out.size) die("no rows to write");
  return out;
}

llama_context* open_context(const char* path, std::uint32_t tokens, int threads, const char* kv) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  llama_backend_init();
  llama_model* const model = llama_model_load_from_file(path, llama_model_default_params());
  if (model == nullptr) die("llama.cpp cannot read the model");
  llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = params.n_ubatch = tokens;
  params.n_threads = params.n_threads_batch = threads;
  if (kv != nullptr) {
    params.type_k = params.type_v = std::strcmp(kv, "f32") == 0 ? GGML_TYPE_F32 : GGML_TYPE_F16;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  }
  llama_context* const context = llama_init_from_model(model, params);
  if (context == nullptr) die("llama.cpp cannot make a context");
  return context;
}

// Evaluates one window and writes its rows.
void write_window(llama_context* context, const Windows& windows, std::int32_t number,
                  std::int32_t vocabulary, std::ofstream& out) {
  llama_memory_clear(llama_get_memory(context), true);
  llama_batch batch = llama_batch_init(windows.size, 0, 1);
  batch.n_tokens = windows.size;
  for (std::int32_t i = 0; i < windows.size; ++i) {
    batch.token[i] = windows.tokens[static_cast<std::size_t>(number * windows.size + i)];
    batch.pos[i] = i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = i >= windows.first && i < windows.end ? 1 : 0;
  }
  if (llama_decode(context, batch) != 0) die("llama.cpp cannot evaluate the tokens");
  for (std::int32_t i = windows.first; i < windows.end; ++i) {
    out.write(reinterpret_cast<const char*>(llama_get_logits_ith(context, i)),
              std::streamsize{vocabulary} * 4);
  }
  llama_batch_free(batch);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6 && argc != 7) {
    die("usage: llama_logits MODEL.gguf TOKENS.txt OUTPUT THREADS LIBRARIES [f16|f32]");
  }
  const char* const kv = argc == 7 ? argv[6] : nullptr;
  if (kv != nullptr && std::strcmp(kv, "f16") != 0 && std::strcmp(kv, "f32") != 0) {
    die("the type of keys and values is f16 or f32");
  }
  const Windows windows = read_windows(argv[2]);
  ggml_backend_load_all_from_path(argv[5]);  // the build for this processor
  llama_context* const context =
      open_context(argv[1], static_cast<std::uint32_t>(windows.size), std::atoi(argv[4]), kv);
  const std::int32_t vocabulary =
      llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(context)));
  std::ofstream out(argv[3], std::ios::binary);
  const std::int32_t shape[2] = {windows.count() * (windows.end - windows.first), vocabulary};
  out.write("MLOGITS1", 8).write(reinterpret_cast<const char*>(shape), sizeof shape);
  for (std::int32_t w = 0; w < windows.count(); ++w) {
    write_window(context, windows, w, vocabulary, out);
  }
  out.close();
  if (!out) die("cannot write the output");
  return 0;
}
