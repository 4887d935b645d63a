#include <charconv>

#include "engram/model/node.hpp"
#include "xml_reader.hpp"

namespace engram::model {
namespace {

using Element = tinyxml2::XMLElement;
constexpr const char* kNvSwitchClass =
    "0x068000";  // PCI class of an NVLink switch ("bridge, other")

class Importer {
 public:
  explicit Importer(const XmlFile& file) : file_(file) {}

  Result<NodeDescription> run() {
    for (const Element* e = file_.root().FirstChildElement(); e; e = e->NextSiblingElement()) {
      if (std::string_view(e->Name()) != "cpu") {
        note(*e);
        continue;
      }
      node_.cpus.push_back({static_cast<std::uint32_t>(std::max(0, e->IntAttribute("numaid"))),
                            XmlFile::text(*e, "arch"), XmlFile::text(*e, "vendor")});
      PciPlace place{"", node_.cpus.size() - 1, {}, {}};
      if (auto ok = children(*e, place); !ok) return tl::unexpected(ok.error());
    }
    if (node_.cpus.empty()) return file_.fail(file_.root(), "holds no <cpu>");
    return std::move(node_);
  }

 private:
  Result<void> children(const Element& parent, const PciPlace& place) {
    for (const Element* e = parent.FirstChildElement(); e; e = e->NextSiblingElement()) {
      if (auto ok = read(*e, place); !ok) return ok;
    }
    return {};
  }

  Result<void> read(const Element& e, const PciPlace& place) {
    const std::string_view tag = e.Name();
    if (tag == "pci") return read_pci(e, place);
    if (tag == "nic") return children(e, place);
    if (tag == "net") return read_net(e, place);
    if (tag == "gpu") return read_gpu(e, place);
    note(e);
    return {};
  }

  /// A <pci> is a switch if it holds other <pci>, else the place of the device in it.
  Result<void> read_pci(const Element& e, const PciPlace& above) {
    const auto busid = file_.needed(e, "busid");
    if (!busid) return tl::unexpected(busid.error());
    const auto rate = pci_rate(e);
    if (!rate) return tl::unexpected(rate.error());
    PciPlace place = above;
    if (!above.busid.empty()) place.switches.push_back(above.busid);
    place.busid = *busid;
    place.rate = *rate;
    return children(e, place);
  }

  /// "32.0 GT/s PCIe" x width, less the coding: 8b/10b to Gen2, 128b/130b from Gen3 on.
  Result<BytesPerSecond> pci_rate(const Element& e) const {
    const std::string speed = XmlFile::text(e, "link_speed");
    const std::string width = XmlFile::text(e, "link_width");
    if (speed.empty() && width.empty()) return BytesPerSecond{};
    double gt = 0;
    std::uint32_t lanes = 0;
    if (!number(speed, gt) || !number(width, lanes)) {
      return file_.fail(e, "link_speed=\"", speed, "\" link_width=\"", width,
                        "\" is not understood");
    }
    return BytesPerSecond{gt * 1e9 * lanes / 8 * (gt < 8 ? 0.8 : 128.0 / 130)};
  }

  template <class Number>
  static bool number(const std::string& text, Number& value) {
    return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc{};
  }

  Result<void> read_net(const Element& e, const PciPlace& place) {
    NodeNic nic;
    const auto name = file_.needed(e, "name");
    if (!name) return tl::unexpected(name.error());
    nic.name = *name;
    nic.dev = e.UnsignedAttribute("dev");
    nic.port = e.UnsignedAttribute("port");
    nic.guid = XmlFile::text(e, "guid");
    nic.gdr = e.IntAttribute("gdr") != 0;
    double speed = 0;  // Mb/s
    const auto read = e.QueryDoubleAttribute("speed", &speed);
    if (read == tinyxml2::XML_WRONG_ATTRIBUTE_TYPE || !(speed >= 0)) {
      return file_.fail(e, "speed=\"", XmlFile::text(e, "speed"), "\" is no number of Mb/s");
    }
    nic.speed = BytesPerSecond{speed * 1e6 / 8};
    nic.place = place;
    node_.nics.push_back(std::move(nic));
    return {};
  }

  Result<void> read_gpu(const Element& e, const PciPlace& place) {
    NodeGpu gpu;
    if (e.QueryUnsignedAttribute("dev", &gpu.dev) != tinyxml2::XML_SUCCESS) {
      return file_.fail(e, "lacks a number dev");
    }
    if (e.Attribute("rank") && e.IntAttribute("rank") >= 0) gpu.rank = e.UnsignedAttribute("rank");
    gpu.sm = e.UnsignedAttribute("sm");
    gpu.gdr = e.IntAttribute("gdr") != 0;
    gpu.place = place;
    for (const Element* l = e.FirstChildElement(); l; l = l->NextSiblingElement()) {
      if (std::string_view(l->Name()) != "nvlink") {
        note(*l);
        continue;
      }
      const auto target = file_.needed(*l, "target");
      if (!target) return tl::unexpected(target.error());
      const int count = l->IntAttribute("count", l->Attribute("count") ? 0 : 1);
      if (count < 1) {
        return file_.fail(*l, "count=\"", XmlFile::text(*l, "count"), "\" is no number of links");
      }
      gpu.nvlinks.push_back({*target, static_cast<std::uint32_t>(count),
                             XmlFile::text(*l, "tclass") == kNvSwitchClass});
    }
    node_.gpus.push_back(std::move(gpu));
    return {};
  }

  void note(const Element& e) {
    node_.notes.push_back(fmt::format("{}: <{}> ignored", file_.place(e), e.Name()));
  }

  const XmlFile& file_;
  NodeDescription node_;
};

}  // namespace

Result<NodeDescription> import_nccl_topology(const std::string& path) {
  const auto file = XmlFile::open(path, "system");
  if (!file) return tl::unexpected(file.error());
  return Importer(*file).run();
}

}  // namespace engram::model
