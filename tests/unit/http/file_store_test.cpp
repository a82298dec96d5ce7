// The files of a server: who sees them, what a crash leaves, full disks.
#include "http/batches/file_store.hpp"

#include <gtest/gtest.h>

#include "http/batches/upload.hpp"
#include "schemas/base/fault_env.hpp"

namespace millrace::http {
namespace {

class FileStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<FileStore> open(const std::set<std::string>& expected = {},
                                  FileLimits limits = {}) {
    auto store = FileStore::open(env_, clock_, "/http", expected, limits);
    EXPECT_TRUE(store) << store.error().text();
    return store ? *std::move(store) : nullptr;
  }
  Result<openai::FileObject> upload(FileStore& store, const std::string& text,
                                    const std::string& tenant = "acme",
                                    const std::string& purpose = "batch") {
    Upload upload(store, clock_, tenant);
    MILLRACE_TRY(upload.take({.name = "purpose", .filename = {}, .bytes = purpose}));
    MILLRACE_TRY(upload.take({.name = "file", .filename = "in.jsonl", .bytes = text}));
    return upload.finish();
  }
  std::string content(FileStore& store, const std::string& id) {
    const auto file = store.open_data(id);
    if (!file) return "none";
    std::string text(*(*file)->size(), '\0');
    EXPECT_TRUE((*file)->read_at(0, std::span(text)));
    return text;
  }
  std::size_t left() { return env_.list("/http/files")->size() + env_.list("/http/parts")->size(); }
  static bool unused(const std::string& /*id*/) { return false; }

  FaultEnv env_;
  SystemClock clock_;
};

TEST_F(FileStoreTest, AFileIsItsTenantsAlone) {
  const auto store = open();
  const auto file = upload(*store, "text");
  ASSERT_TRUE(file) << file.error().text();
  EXPECT_TRUE(file->id.starts_with("file-"));
  EXPECT_EQ(file->bytes, 4u);
  EXPECT_EQ(file->filename, "in.jsonl");
  EXPECT_EQ(store->find("acme", file->id)->object, *file);
  EXPECT_FALSE(store->find("other", file->id));
  EXPECT_EQ(store->list("acme").size(), 1u);
  EXPECT_TRUE(store->list("other").empty());
  EXPECT_EQ(store->remove("other", file->id, unused).error().code, Code::not_found);
  EXPECT_EQ(content(*store, file->id), "text");
  EXPECT_TRUE(store->remove("acme", file->id, unused));
  EXPECT_FALSE(store->find("acme", file->id));
  EXPECT_EQ(left(), 0u);
  EXPECT_EQ(store->remove("acme", file->id, unused).error().code, Code::not_found);
}

TEST_F(FileStoreTest, WhateverThePowerCutsTheFileIsWholeOrAbsent) {
  std::uint64_t whole = 0;
  for (std::uint64_t cut = 1; cut < 60; ++cut) {
    FaultEnv env;
    auto store = FileStore::open(env, clock_, "/http", {});
    ASSERT_TRUE(store);
    env.cut_after(cut);
    Upload* const upload = new Upload(**store, clock_, "acme");
    Result<openai::FileObject> made = fail(Code::internal, "");
    if (upload->take({.name = "purpose", .filename = {}, .bytes = "batch"}) &&
        upload->take({.name = "file", .filename = "x", .bytes = "whole text"})) {
      made = upload->finish();
    }
    delete upload;
    env.restart(cut);
    const auto again = FileStore::open(env, clock_, "/http", {});
    ASSERT_TRUE(again) << again.error().text();
    const auto files = (*again)->list("acme");
    EXPECT_GE(files.size(), made ? 1u : 0u) << cut;  // it was acknowledged
    whole += made ? 1 : 0;
    for (const auto& file : files) {
      const auto data = (*again)->open_data(file.object.id);
      ASSERT_TRUE(data) << cut;
      std::string text(*(*data)->size(), '\0');
      ASSERT_TRUE((*data)->read_at(0, std::span(text)));
      EXPECT_EQ(text, "whole text") << cut;
    }
    EXPECT_TRUE(env.list("/http/parts")->empty());
    EXPECT_EQ(env.list("/http/files")->size(), 2 * files.size()) << cut;
  }
  EXPECT_GT(whole, 0u);
  EXPECT_LT(whole, 59u);
}

TEST_F(FileStoreTest, AnUploadThatIsRefusedLeavesNothing) {
  const auto store = open();
  EXPECT_EQ(upload(*store, "text", "acme", "fine-tune").error().code, Code::invalid_value);
  EXPECT_EQ(upload(*store, "text", "acme", "").error().code, Code::missing_field);
  EXPECT_EQ(left(), 0u);
  {
    Upload without(*store, clock_, "acme");
    ASSERT_TRUE(without.take({.name = "purpose", .filename = {}, .bytes = "batch"}));
    EXPECT_EQ(without.finish().error().code, Code::missing_field);
    Upload control(*store, clock_, "acme");
    EXPECT_FALSE(control.take({.name = "file", .filename = "a\nb", .bytes = "x"}));
    EXPECT_FALSE(control.take({.name = "file", .filename = "", .bytes = "x"}));
    Upload path(*store, clock_, "acme");
    EXPECT_TRUE(path.take({.name = "file", .filename = "../../etc/passwd", .bytes = "x"}));
    EXPECT_TRUE(path.take({.name = "purpose", .filename = {}, .bytes = "batch"}));
    EXPECT_EQ(path.finish()->filename, "../../etc/passwd");  // a text, and no path
  }
  EXPECT_EQ(store->list("acme").size(), 1u);
  EXPECT_EQ(env_.list("/http/files")->size(), 2u);
}

// An upload begins and is given up on the server's only thread, which waits for no disk.
TEST_F(FileStoreTest, APartNeedsNoSync) {
  const auto store = open();
  std::vector<std::string> operations;
  env_.set_hook([&](std::string_view operation, const std::string& /*path*/) {
    operations.emplace_back(operation);
    return Status();
  });
  {
    Upload upload(*store, clock_, "acme");
    ASSERT_TRUE(upload.take({.name = "file", .filename = "x", .bytes = "text"}));
  }
  EXPECT_EQ(operations, (std::vector<std::string>{"create temporary", "drop"}));
  env_.set_hook(nullptr);
  EXPECT_EQ(left(), 0u);
}

TEST_F(FileStoreTest, AFullDiskRefusesUploadsAndKeepsWhatIsThere) {
  const auto store = open();
  ASSERT_TRUE(upload(*store, "text"));
  env_.set_capacity(100);
  EXPECT_EQ(upload(*store, "more").error().code, Code::disk_full);
  env_.set_capacity(limits::disk_high_bytes + 2 * limits::MiB);
  EXPECT_EQ(upload(*store, std::string(3 * limits::MiB, 'x')).error().code, Code::disk_full);
  EXPECT_EQ(store->list("acme").size(), 1u);
  EXPECT_EQ(left(), 2u);
  EXPECT_TRUE(upload(*store, "more"));
}

TEST_F(FileStoreTest, AnUploadHasOneFileAndEachFieldOnce) {
  const auto store = open();
  const FormPiece empty{.name = "file", .filename = "x", .bytes = {}};
  const FormPiece purpose{.name = "purpose", .filename = {}, .bytes = "b"};
  for (const FormPiece& piece : {empty, purpose}) {
    Upload upload(*store, clock_, "acme");
    ASSERT_TRUE(upload.take(piece));
    const auto again = upload.take({.name = piece.name, .filename = "y", .bytes = "1"});
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, Code::invalid_value);
  }
  EXPECT_EQ(left(), 0u);
}

TEST_F(FileStoreTest, WhatIsPromisedToOneUploadIsNotForAnother) {
  const auto store = open();
  env_.set_capacity(limits::disk_high_bytes + limits::MiB + 200'000);
  const FormPiece piece{.name = "file", .filename = "x", .bytes = "x"};
  {
    Upload first(*store, clock_, "acme"), second(*store, clock_, "other");
    ASSERT_TRUE(first.take(piece));
    EXPECT_EQ(second.take(piece).error().code, Code::disk_full);
  }
  Upload third(*store, clock_, "other");
  EXPECT_TRUE(third.take(piece));
}

TEST_F(FileStoreTest, ATenantsFilesHaveABound) {
  const FileLimits limits{.tenant_bytes = 10};
  auto store = open({}, limits);
  const auto first = upload(*store, "123456");
  ASSERT_TRUE(first);
  const auto refused = upload(*store, "12345");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::limit_exceeded);
  EXPECT_TRUE(refused.error().message.contains("at most 10 bytes")) << refused.error().text();
  EXPECT_TRUE(refused.error().hint.contains("--http-files-size"));
  EXPECT_EQ(left(), 2u);
  EXPECT_TRUE(upload(*store, "12345", "other"));
  EXPECT_TRUE(upload(*store, "1234"));  // what was refused counts no more
  EXPECT_EQ(store->check_room("acme").error().code, Code::limit_exceeded);
  store = open({}, limits);  // also after a restart
  EXPECT_EQ(upload(*store, "1").error().code, Code::limit_exceeded);
  const auto in_use = [](const std::string& /*id*/) { return true; };
  ASSERT_TRUE(store->remove("acme", first->id, in_use));  // hidden, and still on disk
  EXPECT_EQ(upload(*store, "1").error().code, Code::limit_exceeded);
  store->sweep(unused);
  EXPECT_TRUE(upload(*store, "123456"));
}

TEST_F(FileStoreTest, UploadsUnderWayCountAndResultsAreAlwaysTaken) {
  const auto store = open({}, {.tenant_bytes = 10});
  const FormPiece piece{.name = "file", .filename = "x", .bytes = "123456"};
  {
    Upload first(*store, clock_, "acme"), second(*store, clock_, "acme");
    ASSERT_TRUE(first.take(piece));
    EXPECT_EQ(second.take(piece).error().code, Code::limit_exceeded);
  }
  ASSERT_TRUE(upload(*store, "123456"));
  StoredFile result{.tenant = "acme", .created_us = 1, .object = {}};
  result.object = {
      .id = FileStore::new_id(), .bytes = 8, .filename = "x", .purpose = "batch_output"};
  ASSERT_TRUE(write_file_atomically(env_, "/http/parts/x", "12345678"));
  ASSERT_TRUE(store->add(result, "/http/parts/x"));
  EXPECT_EQ(upload(*store, "1").error().code, Code::limit_exceeded);
  ASSERT_TRUE(store->remove("acme", result.object.id, unused));
  EXPECT_TRUE(upload(*store, "1234"));
}

TEST_F(FileStoreTest, NoBoundIsNone) {
  const auto store = open({}, {.tenant_bytes = 0});
  EXPECT_TRUE(upload(*store, "123456"));
  EXPECT_TRUE(upload(*store, "123456"));
}

TEST_F(FileStoreTest, SoManyUploadsAreUnderWay) {
  UploadPlaces places;
  std::vector<std::unique_ptr<UploadPlaces::Place>> all;
  const auto enter = [&](const std::string& tenant) -> std::optional<Error> {
    auto place = places.enter(tenant);
    if (!place) return place.error();
    all.push_back(*std::move(place));
    return std::nullopt;
  };
  for (std::size_t i = 0; i < UploadPlaces::most_of_tenant; ++i) EXPECT_FALSE(enter("acme"));
  const auto refused = enter("acme");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, Code::overloaded);
  EXPECT_TRUE(refused->retry_ms);
  for (std::size_t i = 0; all.size() < UploadPlaces::most; ++i) {
    EXPECT_FALSE(enter("tenant-" + std::to_string(i)));
  }
  EXPECT_EQ(enter("new")->code, Code::overloaded);
  all.erase(all.begin());
  EXPECT_FALSE(enter("acme"));
}

TEST_F(FileStoreTest, AnUploadWhoseRecordIsNotSavedLeavesNothing) {
  for (const char* const failing : {"write", "sync", "rename"}) {
    const auto store = open();
    env_.set_hook([&](std::string_view operation, const std::string& path) -> Status {
      if (operation != failing || !path.contains(".json")) return {};
      return fail(Code::disk_full, "no space is left");
    });
    EXPECT_EQ(upload(*store, "text").error().code, Code::disk_full) << failing;
    env_.set_hook(nullptr);
    const auto names = *env_.list("/http/files");
    for (const std::string& name : names) {
      EXPECT_FALSE(name.ends_with(".data") || name.ends_with(".json")) << failing << name;
    }
    EXPECT_TRUE(env_.list("/http/parts")->empty()) << failing;
    EXPECT_TRUE(store->list("acme").empty());
  }
  const auto store = open();  // which removes what the records' writing has left
  EXPECT_EQ(left(), 0u);
  EXPECT_TRUE(upload(*store, "text"));
}

TEST_F(FileStoreTest, AFileThatABatchReadsIsHiddenUntilTheEnd) {
  auto store = open();
  const auto file = upload(*store, "text");
  EXPECT_TRUE(store->remove("acme", file->id, [&](const auto& id) { return id == file->id; }));
  EXPECT_FALSE(store->find("acme", file->id));
  EXPECT_TRUE(store->list("acme").empty());
  EXPECT_EQ(content(*store, file->id), "text");
  store = open();  // also after a restart
  EXPECT_FALSE(store->find("acme", file->id));
  store->sweep([](const auto&) { return true; });
  EXPECT_EQ(content(*store, file->id), "text");
  store->sweep(unused);
  EXPECT_EQ(left(), 0u);
}

TEST_F(FileStoreTest, WhatHasExpiredIsGone) {
  const auto store = open();
  StoredFile file{.tenant = "acme", .created_us = 1, .object = {}};
  file.object = {
      .id = FileStore::new_id(), .bytes = 1, .expires_s = 5, .filename = "x", .purpose = "batch"};
  ASSERT_TRUE(write_file_atomically(env_, "/http/parts/x", "x"));
  ASSERT_TRUE(store->add(file, "/http/parts/x"));
  EXPECT_FALSE(store->find("acme", file.object.id));
  EXPECT_EQ(left(), 2u);
  store->sweep(unused);
  EXPECT_EQ(left(), 0u);
}

TEST_F(FileStoreTest, RemovedFilesKeepTheirPlacesForAWhile) {
  auto store = open();
  const std::string first = upload(*store, "a")->id, second = upload(*store, "b")->id;
  const auto places = std::pair(store->place("acme", first), store->place("acme", second));
  ASSERT_TRUE(places.first && places.second);
  EXPECT_LT(*places.first, *places.second);
  ASSERT_TRUE(store->remove("acme", first, unused));
  ASSERT_TRUE(store->remove("acme", second, [](const std::string&) { return true; }));
  EXPECT_EQ(std::pair(store->place("acme", first), store->place("acme", second)), places);
  EXPECT_FALSE(store->place("other", first));
  EXPECT_FALSE(store->place("other", second));
  EXPECT_FALSE(store->place("acme", "file-none"));
  for (std::size_t i = 0; i < FileStore::removed_kept; ++i) {
    ASSERT_TRUE(store->remove("other", upload(*store, "c", "other")->id, unused));
  }
  EXPECT_FALSE(store->place("acme", first));
  EXPECT_TRUE(store->place("acme", second));
}

TEST_F(FileStoreTest, ARecordThatCannotBeReadIsLeftOut) {
  auto store = open();
  const auto file = upload(*store, "text");
  const std::string large(2 * limits::MiB, ' ');
  ASSERT_TRUE(write_file_atomically(env_, "/http/files/file-a.json", large));
  ASSERT_TRUE(write_file_atomically(env_, "/http/files/file-a.data", "a"));
  store = open();
  EXPECT_EQ(content(*store, file->id), "text");
  EXPECT_FALSE(store->find("acme", "file-a"));
  EXPECT_EQ(content(*store, "file-a"), "a");
}

TEST_F(FileStoreTest, DataOfAFileThatIsBeingMadeIsKept) {
  auto store = open();
  ASSERT_TRUE(write_file_atomically(env_, "/http/files/file-a.data", "a"));
  ASSERT_TRUE(write_file_atomically(env_, "/http/files/file-b.data", "b"));
  store = open({"file-a"});
  EXPECT_EQ(content(*store, "file-a"), "a");
  EXPECT_EQ(content(*store, "file-b"), "none");
}

}  // namespace
}  // namespace millrace::http
