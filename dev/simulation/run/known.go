package run

import (
	_ "embed"
	"strings"
)

// known.txt has a kind of failure that is known today in each line, and a sentence about it: rule x character x disturbance: sentence. A star
// stands for any character or disturbance.
//
//go:embed known.txt
var knownText string

// Known returns the sentence about a kind in known.txt, empty if the kind is not listed.
func Known(kind string) string {
	parts := strings.Split(kind, " x ")
	for line := range strings.Lines(knownText) {
		listed, sentence, ok := strings.Cut(line, ": ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		if matches(strings.Split(listed, " x "), parts) {
			return ": " + strings.TrimSpace(sentence)
		}
	}
	return ""
}

// matches compares the rule, the character and the disturbance. A character of several is known if one of them is.
func matches(listed, kind []string) bool {
	if len(listed) != 3 || len(kind) != 3 || listed[0] != kind[0] {
		return false
	}
	one := func(listed, is string) bool { return listed == "*" || listed == is }
	character := one(listed[1], kind[1])
	for part := range strings.SplitSeq(kind[1], "+") {
		character = character || one(listed[1], part)
	}
	return character && one(listed[2], kind[2])
}
