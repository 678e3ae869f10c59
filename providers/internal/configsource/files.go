package configsource

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files reads files and remembers which, and what was in them.
type Files struct {
	watched []string
	looks   []look
	sum     hash.Hash
}

// look is one file that was read, or one path at which files were looked for.
type look struct {
	path string
	// list says that files with one of the extensions were looked for.
	list       bool
	extensions []string
}

// NewFiles returns a reader of files for a caller that loads a config and does not follow it.
func NewFiles() *Files { return &Files{sum: sha256.New()} }

// Read reads a file.
func (f *Files) Read(path string) ([]byte, error) {
	f.watched = append(f.watched, filepath.Dir(path))
	f.looks = append(f.looks, look{path: path})
	data, err := os.ReadFile(path)
	_, _ = fmt.Fprintf(f.sum, "%q %q %v\n", path, data, err)
	return data, err
}

// List returns the path itself, or the files in the folder that it names which have one of two or more extensions, sorted. Hidden files and folders
// are left out: the kubelet keeps the versions of a ConfigMap in such. A folder without such files is an error: it is what a volume looks
// like that was not mounted.
func (f *Files) List(path string, extensions ...string) ([]string, error) {
	f.watched = append(f.watched, filepath.Dir(path))
	f.looks = append(f.looks, look{path: path, list: true, extensions: extensions})
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, nil // reading it shows what is wrong with it
	}
	f.watched = append(f.watched, path)
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") || entry.IsDir() || !slices.Contains(extensions, filepath.Ext(entry.Name())) {
			continue
		}
		found = append(found, filepath.Join(path, entry.Name()))
	}
	_, _ = fmt.Fprintf(f.sum, "%q holds %q\n", path, found)
	if len(found) == 0 {
		last := len(extensions) - 1
		return nil, fmt.Errorf("there is no file *%s or *%s in this folder", strings.Join(extensions[:last], ", *"), extensions[last])
	}
	return found, nil
}

// folders returns where changes have to be looked for.
func (f *Files) folders() []string {
	slices.Sort(f.watched)
	return slices.Compact(f.watched)
}

func (f *Files) digest() string { return string(f.sum.Sum(nil)) }

// digest returns what the digest of loading would be if the same files were looked at: the cheap way to see that nothing has
// changed. What else would be looked at is named by one of them.
func digest(looks []look) string {
	again := NewFiles()
	for _, look := range looks {
		if look.list {
			_, _ = again.List(look.path, look.extensions...)
		} else {
			_, _ = again.Read(look.path)
		}
	}
	return again.digest()
}
