// tinyxml2 with our errors: FILE:LINE in front.
#pragma once

#include <tinyxml2.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "engram/core/result.hpp"

namespace engram::model {

class XmlFile {
 public:
  /// Errors: not_found; invalid_argument with the line; also if the root is not called `root`.
  [[nodiscard]] static Result<XmlFile> open(const std::string& path, std::string_view root) {
    if (!std::filesystem::exists(path))
      return engram::fail(ErrorCode::not_found, path, ": no such file");
    XmlFile file(path);
    if (file.document_->LoadFile(path.c_str()) != tinyxml2::XML_SUCCESS) {
      return engram::fail(ErrorCode::invalid_argument, path, ":",
                          std::max(1, file.document_->ErrorLineNum()), ": ",
                          tinyxml2::XMLDocument::ErrorIDToName(file.document_->ErrorID()));
    }
    if (!file.document_->RootElement()) {  // tinyxml2 accepts a lone declaration
      return engram::fail(ErrorCode::invalid_argument, path, ":1: no element, <", root,
                          "> is expected");
    }
    if (file.root().Name() != root) {
      return engram::fail(ErrorCode::invalid_argument, path, ":", file.root().GetLineNum(), ": <",
                          file.root().Name(), "> where <", root, "> is expected");
    }
    return file;
  }

  [[nodiscard]] const tinyxml2::XMLElement& root() const { return *document_->RootElement(); }

  template <class... Parts>
  [[nodiscard]] tl::unexpected<Error> fail(const tinyxml2::XMLElement& at,
                                           const Parts&... parts) const {
    return engram::fail(ErrorCode::invalid_argument, place(at), ": <", at.Name(), ">: ", parts...);
  }
  [[nodiscard]] std::string place(const tinyxml2::XMLElement& at) const {
    return path_ + ":" + std::to_string(at.GetLineNum());
  }
  [[nodiscard]] const std::string& path() const { return path_; }

  [[nodiscard]] static std::string text(const tinyxml2::XMLElement& at, const char* name,
                                        const char* otherwise = "") {
    const char* value = at.Attribute(name);
    return value ? value : otherwise;
  }
  [[nodiscard]] Result<std::string> needed(const tinyxml2::XMLElement& at, const char* name) const {
    const char* value = at.Attribute(name);
    if (!value) return fail(at, "lacks the attribute ", name);
    return std::string(value);
  }

 private:
  explicit XmlFile(std::string path)
      : path_(std::move(path)), document_(std::make_unique<tinyxml2::XMLDocument>()) {}
  std::string path_;
  std::unique_ptr<tinyxml2::XMLDocument> document_;
};

}  // namespace engram::model
