package main

import (
	"strings"
	"testing"

	"github.com/mooring-ccm/mooring/dev/programtest"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

// Objects are named as for kubectl.
func TestObjectsOfAStatus(t *testing.T) {
	objects, err := parseObjects([]string{"node/a", "no/b", "service/shop/web", "svc/shop/web"})
	if err != nil || len(objects) != 4 || objects[0] != (objectName{"", "a"}) || objects[2] != (objectName{"shop", "web"}) {
		t.Errorf("%v, %v", objects, err)
	}
	for _, wrong := range []string{"a", "node/", "node/a/b", "service/web", "service//web", "pod/a/b"} {
		code, _, stderr := programtest.Call(t, newRoot(), "status", wrong)
		if code != cli.ExitUsage || !strings.Contains(stderr, `"`+wrong+`": must be node/NAME or service/NAMESPACE/NAME`) {
			t.Errorf("%s: exit code %d: %s", wrong, code, stderr)
		}
	}
}

// A screen shows the beginning of a text, which has the problems, and says how much is left out.
func TestScreen(t *testing.T) {
	for lines, want := range map[int]string{0: "a\nb\nc", 3: "a\nb\nc", 2: "a\n2 more lines"} {
		if got := strings.TrimPrefix(screen("a\nb\nc\n", lines), clearScreen); got != want {
			t.Errorf("%d lines: %q, want %q", lines, got, want)
		}
	}
}
