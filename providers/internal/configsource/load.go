package configsource

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Format is how the cloud configs of a provider are read, and what of a change a running process takes.
type Format[C any] struct {
	// Provider is the name of the provider, for messages.
	Provider string
	// Read returns the config in data. It reads all files that data names by way of Files, or with Files before it does so itself; relative
	// paths are relative to dir. Its error names everything that is wrong.
	Read func(files *Files, data []byte, dir string) (*C, error)
	// ValidateChange returns why a config that is right by itself must not follow another one in a running process.
	ValidateChange func(before, after *C) field.ErrorList
}

// Load reads the cloud config at path, with the files that it names.
func (f Format[C]) Load(path string) (*C, error) {
	origin, err := fileOrigin(path)
	if err != nil {
		return nil, err
	}
	loaded := load(f, origin)
	return loaded.config, loaded.err
}

// LoadFrom reads a cloud config that has no file of its own, as Load does. Relative paths in it are relative to dir.
func (f Format[C]) LoadFrom(from io.Reader, dir string) (*C, error) {
	data, err := io.ReadAll(from)
	if err != nil {
		return nil, fmt.Errorf("reading the cloud config: %w", err)
	}
	loaded := load(f, origin{data: data, dir: dir})
	return loaded.config, loaded.err
}

// origin is where a cloud config comes from.
type origin struct {
	// path is the file, or empty if there is no file, and then data is what it would hold.
	path string
	data []byte
	// name is what holds the data, for messages.
	name string
	// dir is what relative paths in it are relative to.
	dir string
}

// where is the origin for messages.
func (o origin) where() string { return cmp.Or(o.path, o.name) }

// fileOrigin names a file so a change of the working directory does not matter.
func fileOrigin(path string) (origin, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return origin{}, fmt.Errorf("finding the cloud config %s: %w", path, err)
	}
	return origin{path: absolute, dir: filepath.Dir(absolute)}, nil
}

// loaded is what came of loading.
type loaded[C any] struct {
	// config is nil if err is not.
	config *C
	err    error
	// folders are those in which something may change that was read.
	folders []string
	// digest stands for everything that was read, failures included.
	digest string
	// looks are what was looked at, in order.
	looks []look
}

// load reads a config and the files that it names.
func load[C any](format Format[C], from origin) loaded[C] {
	files := NewFiles()
	config, err := read(format, files, from)
	if err != nil {
		config = nil
	}
	return loaded[C]{config: config, err: err, folders: files.folders(), digest: files.digest(), looks: files.looks}
}

func read[C any](format Format[C], files *Files, from origin) (*C, error) {
	data := from.data
	if from.path != "" {
		var err error
		if data, err = files.Read(from.path); err != nil {
			return nil, fmt.Errorf("reading the cloud config: %w", err)
		}
	}
	return format.Read(files, data, from.dir)
}
