#pragma once
// A store of segments in a bucket of an S3-compatible server: an object for each file, written
// whole by one PUT. A use is the object's time of change, which a copy onto itself sets to now.
// Requests are signed by libcurl (AWS Signature Version 4). One that gets no answer ends after some
// seconds.
//
// Errors and thread safety: as SegmentStore.
#include <memory>

#include "engine/core/prefix/segment_store.hpp"
#include "engine/worker/s3_settings.hpp"

namespace millrace::worker {

std::unique_ptr<engine::SegmentStore> s3_store(const S3Settings& settings);

}  // namespace millrace::worker
