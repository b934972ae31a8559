#include "cli/manual.h"

#include <algorithm>

#include "cli/command.h"

namespace mq::cli {
namespace {

// scdoc takes these for markup.
std::string escaped(std::string_view text) {
  std::string out = text.starts_with('-') || text.starts_with('.') ? "\\" : "";
  for (char c : text) {
    if (c == '*' || c == '_' || c == '\\' || c == '<' || c == '[' || c == '#' || c == '`') out += '\\';
    out += c;
  }
  return out;
}

std::string pageName(std::string_view path) {
  std::string name = path.empty() ? "mq" : fmt::format("mq-{}", path);
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string paragraphs(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    out += escaped(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string flagTerm(const Flag& flag) {
  std::string term;
  for (char c : flag.shortNames) term += fmt::format("*-{}*, ", c);
  term += fmt::format("*--{}*", escaped(flag.name));
  for (std::string_view rest = flag.aliases; !rest.empty();) {
    size_t end = std::min(rest.find(' '), rest.size());
    term += fmt::format(", *--{}*", escaped(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (!flag.value.empty()) term += " " + escaped(flag.value);
  return term;
}

std::string listed(std::string_view prefix) {
  std::string out;
  for (const Command& command : allCommands()) {
    if (!command.path.starts_with(prefix)) continue;
    std::string_view rest = command.path.substr(prefix.size());
    if (rest.empty() || rest.find(' ') != std::string_view::npos) continue;
    out += fmt::format("*{}*(1)\n\t{}.\n\n", pageName(command.path), escaped(command.summary));
  }
  return out;
}

std::string pageOf(const Command& command) {
  std::string name = pageName(command.path);
  std::string summary(command.summary);
  summary[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(summary[0])));
  std::string page = fmt::format("{}(1)\n\n# NAME\n\n{} - {}\n", name, name, escaped(summary));
  if (command.run != nullptr) {
    page += fmt::format("\n# SYNOPSIS\n\n*mq {}*", command.path);
    if (!command.flags.empty()) page += " \\[options]";
    for (const Positional& p : command.positionals) {
      std::string word = fmt::format("_{}_{}", escaped(p.name), p.repeats ? "..." : "");
      page += p.required ? " " + word : fmt::format(" \\[{}]", word);
    }
    page += "\n";
  }
  if (!command.details.empty()) page += "\n# DESCRIPTION\n\n" + paragraphs(command.details);
  if (command.run == nullptr) page += "\n# COMMANDS\n\n" + listed(fmt::format("{} ", command.path));
  if (!command.positionals.empty()) {
    page += "\n# ARGUMENTS\n";
    for (const Positional& p : command.positionals)
      page += fmt::format("\n_{}_\n\t{}\n", escaped(p.name), escaped(p.help));
  }
  if (!command.flags.empty()) {
    page += "\n# OPTIONS\n";
    for (const Flag& flag : command.flags) {
      page +=
          fmt::format("\n{}\n\t{}{}\n", flagTerm(flag), escaped(flag.help), flag.repeats ? " (may be repeated)" : "");
    }
  }
  if (!command.examples.empty()) {
    page += "\n# EXAMPLES\n";
    for (const auto& [line, what] : command.examples)
      page += fmt::format("\n*{}*\n\t{}\n", escaped(line), escaped(what));
  }
  std::string also = "*mq*(1)";
  if (size_t space = command.path.rfind(' '); space != std::string_view::npos)
    also += fmt::format(", *{}*(1)", pageName(command.path.substr(0, space)));
  if (command.path == "serve" || command.path.starts_with("config")) also += ", *mq.toml*(5)";
  page += fmt::format("\n# SEE ALSO\n\n{}\n", also);
  return page;
}

std::string overview() {
  std::string page =
      "mq(1)\n\n# NAME\n\nmq - a distributed log that speaks Kafka's protocol\n\n# SYNOPSIS\n\n*mq* _COMMAND_ "
      "\\[options] \\[arguments]\n\n# COMMANDS\n\n";
  page += listed("");
  page +=
      "# EXIT CODES\n\n"
      "*0*\n\tDone.\n\n"
      "*1*\n\tFailed: at least one record was not delivered, or the work could not be done.\n\n"
      "*2*\n\tThe command line is wrong.\n\n"
      "*3*\n\tA filter matched nothing, or a time limit passed.\n\n"
      "*4*\n\tDenied.\n\n"
      "*5*\n\tNot found.\n\n"
      "*6*\n\tExists already, or conflicts.\n\n"
      "*10*\n\tUnhealthy: something is damaged.\n\n"
      "*130*\n\tInterrupted.\n\n"
      "*141*\n\tThe reader of the output went away.\n\n"
      "# ENVIRONMENT\n\n"
      "*MQ\\_BROKERS*\n\tWhere to ask first, when *--brokers* is not given: HOST:PORT,...\n\n"
      "*NO\\_COLOR*\n\tNo colours.\n\n"
      "*MQ\\_CFG\\_*_NAME_\n\tA setting of *mq serve*, see *mq.toml*(5).\n\n"
      "# SEE ALSO\n\n*mq.toml*(5)\n";
  return page;
}

}  // namespace

std::map<std::string, std::string> manualPages() {
  std::map<std::string, std::string> pages;
  pages["mq.1.scd"] = overview();
  for (const Command& command : allCommands()) pages[pageName(command.path) + ".1.scd"] = pageOf(command);
  return pages;
}

}  // namespace mq::cli
