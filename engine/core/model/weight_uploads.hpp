#pragma once
// Packs the matrices of a model into panels, on all cores, and writes them to the device meanwhile.
//
//   WeightUploads uploads(backend, file);
//   MILLRACE_ASSIGN(Projection qkv, load_projection(backend, file, parts, columns, uploads));
//   MILLRACE_TRY(uploads.run());   // fills the buffers of all projections at once
//
// Every row is read once, in file order; the system is asked ahead to read a file that is not in
// memory. Rows are checked for numbers that are not finite and packed into pieces of at most 1 MB,
// or of a single panel if that is larger. Where the host shares memory with the device, pieces are
// packed in place. Elsewhere they are packed in pinned memory and written from there without
// waiting: two pieces for each thread, whatever the model's size.
//
// Errors of run: gguf_malformed with the tensor and row of the first number in file order that is
// not finite, whichever thread found it; out_of_memory, device_error. Thread safety: the device's
// owner thread, which makes all calls of the device. The threads of run() only read the file, and
// call Backend::pack.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/gguf/file.hpp"
#include "engine/core/model/panel.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

class Backend;

// Consecutive rows of a tensor of the file that fill whole panels; the last may be filled in part.
// Scales are multiplied by `factor`.
struct PanelSource {
  const Tensor* tensor = nullptr;
  std::uint64_t first_row = 0;
  std::uint32_t rows = 0;
  float factor = 1.0f;
};

struct UploadTimes {
  std::uint64_t bytes = 0;  // of panels
  std::uint32_t threads = 0;
  double seconds = 0;
  // What the threads did meanwhile, the mean of them: reading and checking rows, and packing them.
  // The rest they waited for pieces that the device had not taken yet.
  double reading_seconds = 0, packing_seconds = 0;
};

class WeightUploads {
 public:
  // `staged` forces pinned memory also where it is not needed, for tests.
  WeightUploads(const Backend& backend, const GgufFile& file, bool staged = false);

  // Remembers to fill panels of `to` of a format (Backend::stored_format) from byte `offset` on.
  // Nothing is read yet.
  void add(const PanelSource& source, const PanelFormat& format, const Buffer& to,
           std::uint64_t offset);
  // The same for so many panels of a gate and an up of one type (Backend::pack_pair), which are
  // read as one: panels follow the gate's place in the file.
  void add_pair(const PanelSource& gate, const PanelSource& up, std::uint32_t panels,
                const PanelFormat& format, const Buffer& to, std::uint64_t offset);
  // Fills all that was added; then nothing remains.
  Result<UploadTimes> run();

 private:
  friend class PanelPipeline;
  struct Matrix {
    std::vector<PanelSource> sources;  // one, or a gate and an up
    std::uint32_t panels = 0;
    PanelFormat format;
    Buffer to;
    std::uint64_t offset = 0;
    std::uint64_t panel_bytes = 0;

    // Of each source in a panel.
    std::uint32_t rows() const { return panel_rows / static_cast<std::uint32_t>(sources.size()); }
  };

  void add(std::vector<PanelSource> sources, std::uint32_t panels, const PanelFormat& format,
           const Buffer& to, std::uint64_t offset);

  const Backend* backend_;
  const GgufFile* file_;
  const bool in_place_;
  std::vector<Matrix> matrices_;
};

}  // namespace millrace::engine
