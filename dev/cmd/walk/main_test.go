package main

import (
	"bytes"
	"regexp"
	"testing"
)

// TestWalks looks that both ways are walked. How many functions they pass varies by some, because goroutines meet.
func TestWalks(t *testing.T) {
	var output bytes.Buffer
	if err := run(t.Context(), "../../..", &output); err != nil {
		t.Fatalf("%v\n%s", err, &output)
	}
	for _, name := range []string{"a Service to its address", "a node to the removal of its taint"} {
		if !regexp.MustCompile(name + `: [1-9]\d+ entries, [1-9]\d* files, [1-9]\d* returns`).Match(output.Bytes()) {
			t.Errorf("no walk of %s in\n%s", name, &output)
		}
	}
}
