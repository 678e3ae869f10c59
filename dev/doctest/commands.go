package doctest

import (
	"path"
	"slices"
	"strings"
)

// Commands returns the commands that a page of Markdown shows, in their order: the lines of blocks that are indented, and of
// fenced ones that are marked as sh or console. A line that ends with a backslash goes on in the next one. Fenced blocks of
// anything else hold no commands.
func Commands(page string) []string {
	var found []string
	inside, fence, open := false, "", ""
	above := "" // the last line outside of blocks: a block is indented beyond an empty line
	for line := range strings.SplitSeq(page, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(trimmed, "```") && inside:
			inside = false
			continue
		case strings.HasPrefix(trimmed, "```"):
			inside, fence = true, strings.TrimPrefix(trimmed, "```")
			continue
		case trimmed == "" || inside && fence != "sh" && fence != "console" || !inside && !indented(line, above):
			above = line
			continue
		}
		if open += trimmed; strings.HasSuffix(open, `\`) {
			open = strings.TrimSpace(strings.TrimSuffix(open, `\`)) + " "
			continue
		}
		if !strings.HasPrefix(open, "#") {
			found = append(found, open)
		}
		open = ""
	}
	return found
}

// indented reports whether a line belongs to an indented block: below an empty line, or below a line of the same block.
func indented(line, above string) bool {
	return strings.HasPrefix(line, "    ") && (strings.TrimSpace(above) == "" || strings.HasPrefix(above, "    "))
}

// Ours reads a command line of the tool, of one that `mooring build --tool` makes, or of the daemon. The words are those behind
// the tool's name, or begin with the daemon's, and end where the shell goes on with something else. It is not ok if that is a
// command of another program, or no command.
func Ours(command string) (words []string, ok bool) {
	words = strings.Fields(command)
	if end := slices.IndexFunc(words, func(word string) bool { return strings.Trim(word, "|>&") == "" }); end >= 0 {
		words = words[:end]
	}
	if len(words) > 1 && words[0] == "kubectl" && words[1] == "mooring" {
		words = words[1:]
	}
	if len(words) < 2 {
		return nil, false
	}
	switch program := path.Base(words[0]); {
	case program == "cloud-controller-manager":
		return append([]string{program}, words[1:]...), true
	case program == "mooring" || strings.HasPrefix(program, "mooring-"):
		return words[1:], true
	default:
		return nil, false
	}
}
