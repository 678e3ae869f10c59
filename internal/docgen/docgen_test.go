package generated

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestPut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	var stale *StaleError
	if err := Put(file, []byte("new"), true, "flags", "./ccm"); !errors.As(err, &stale) {
		t.Errorf("a file that is not there: %v, want a StaleError", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a check has written the file")
	}
	if err := Put(file, []byte("new"), false, "flags", "./ccm"); err != nil {
		t.Fatal(err)
	}
	if err := Put(file, []byte("new"), true, "flags", "./ccm"); err != nil {
		t.Errorf("a current file: %v", err)
	}
	err := Put(file, []byte("newer"), true, "flags", "./ccm")
	if want := file + " is not what the flags say: run go generate ./ccm"; err == nil || err.Error() != want {
		t.Errorf("an old file: %v, want %s", err, want)
	}
}
