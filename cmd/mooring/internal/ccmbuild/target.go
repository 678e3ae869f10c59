package ccmbuild

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// target is a file that the build writes. It is written to a directory beside it first, and moved into place when every step has succeeded.
// A failed build keeps the previous file, and no process reads half a file.
type target struct {
	file string
	dir  string
}

// newTarget finds out whether a file can be written, before anything else takes minutes.
func newTarget(file string) (*target, error) {
	info, err := os.Stat(file)
	switch {
	case err == nil && info.IsDir():
		return nil, &OutputError{File: file, Err: errors.New("is a directory")}
	case err == nil && !info.Mode().IsRegular():
		return nil, &OutputError{File: file, Err: errors.New("is no regular file")}
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return nil, &OutputError{File: file, Err: err}
	}
	dir, err := os.MkdirTemp(filepath.Dir(file), ".mooring-build-")
	if err != nil {
		return nil, &OutputError{File: file, Err: err}
	}
	return &target{file: file, dir: dir}, nil
}

// staged is where to write what commit puts into place.
func (t *target) staged() string { return filepath.Join(t.dir, filepath.Base(t.file)) }

// fill copies a file.
func (t *target) fill(from string, mode os.FileMode) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(t.staged(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return &OutputError{File: t.file, Err: err}
	}
	if _, err = io.Copy(out, in); err != nil {
		err = fmt.Errorf("copying: %w", err)
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return &OutputError{File: t.file, Err: err}
	}
	return nil
}

// commit puts the file into place.
func (t *target) commit() error {
	if err := os.Rename(t.staged(), t.file); err != nil {
		return &OutputError{File: t.file, Err: err}
	}
	return nil
}

// close removes what was not put into place.
func (t *target) close() error { return os.RemoveAll(t.dir) }
