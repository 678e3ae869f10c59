package config

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/providers/internal/strict"
)

// Load reads the cloud config at path and the lists of machines that it names. The error names everything that is wrong, with
// the path and the value of each field, and for a list its file.
func Load(path string) (*CloudConfig, error) {
	origin, err := fileOrigin(path)
	if err != nil {
		return nil, err
	}
	loaded := origin.load()
	return loaded.config, loaded.err
}

// Read reads a cloud config that has no file of its own, as Load does. Relative paths in it are relative to dir.
func Read(from io.Reader, dir string) (*CloudConfig, error) {
	data, err := io.ReadAll(from)
	if err != nil {
		return nil, fmt.Errorf("reading the cloud config: %w", err)
	}
	loaded := origin{data: data, dir: dir}.load()
	return loaded.config, loaded.err
}

// origin is where a cloud config comes from.
type origin struct {
	// path is the file; empty if there is none, and then data is what it would hold.
	path string
	data []byte
	// name is what holds the data, for messages.
	name string
	// dir is what relative paths in it are relative to.
	dir string
}

// where is the origin for messages.
func (o origin) where() string { return cmp.Or(o.path, o.name) }

// fileOrigin names a file so that a change of the working directory does not matter.
func fileOrigin(path string) (origin, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return origin{}, fmt.Errorf("finding the cloud config %s: %w", path, err)
	}
	return origin{path: absolute, dir: filepath.Dir(absolute)}, nil
}

// loaded is what came of loading.
type loaded struct {
	// config is nil if err is not.
	config *CloudConfig
	err    error
	// folders are those in which something may change that was read.
	folders []string
	// digest stands for everything that was read, failures included.
	digest string
	// looks are what was looked at, in order.
	looks []look
}

// load reads the config and the lists of machines that it names.
func (o origin) load() loaded {
	files := &files{sum: sha256.New()}
	config, err := o.read(files)
	if err != nil {
		config = nil
	}
	return loaded{config: config, err: err, folders: files.folders(), digest: files.digest(), looks: files.looks}
}

func (o origin) read(files *files) (*CloudConfig, error) {
	data := o.data
	if o.path != "" {
		var err error
		if data, err = files.read(o.path); err != nil {
			return nil, fmt.Errorf("reading the cloud config: %w", err)
		}
	}
	config, errs := o.decode(files, data)
	if len(errs) > 0 {
		return nil, fmt.Errorf("invalid cloud config: %w", errs.ToAggregate())
	}
	return config, nil
}

// decode returns the config in data with its defaults and the lists of machines that it names, and everything that is wrong with it.
func (o origin) decode(files *files, data []byte) (*CloudConfig, field.ErrorList) {
	config := &CloudConfig{}
	decoded := withoutUnknownValues(strict.YAML(data, config))
	resolveFiles(reflect.ValueOf(config), o.dir)
	inventory := &config.Inventory
	wrong := complete(inventory.Machines, field.NewPath("inventory", "machines"), inventory.Defaults)
	for i, path := range inventory.Paths {
		machines, errs := readLists(files, path, o.dir, field.NewPath("inventory", "paths").Index(i), inventory.Defaults)
		inventory.Machines = append(inventory.Machines, machines...)
		wrong = append(wrong, errs...)
	}
	config.setDefaults()
	return config, strict.Merge(decoded, append(wrong, config.validate()...))
}

// readLists returns the machines of the list at path, or of all lists in the folder at path.
func readLists(files *files, path, dir string, at *field.Path, defaults MachineDefaults) ([]Machine, field.ErrorList) {
	absolute := resolve(path, dir)
	names, err := files.lists(absolute)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(at, path, err.Error())}
	}
	var machines []Machine
	var errs field.ErrorList
	for _, name := range names {
		shown := path
		if name != absolute {
			shown = filepath.Join(path, filepath.Base(name))
		}
		data, err := files.read(name)
		if err != nil {
			errs = append(errs, field.Invalid(at, path, err.Error()))
			continue
		}
		more, misfits := parseList(data, shown, filepath.Dir(name), defaults)
		machines, errs = append(machines, more...), append(errs, misfits...)
	}
	return machines, errs
}

// parseList returns the machines of a list. What is wrong has a path that begins with the name of the file, and so has the origin
// of each machine.
func parseList(data []byte, shown, dir string, defaults MachineDefaults) ([]Machine, field.ErrorList) {
	var list MachineList
	decoded := withoutUnknownValues(strict.YAML(data, &list))
	resolveFiles(reflect.ValueOf(&list), dir)
	wrong := validateType(list.TypeMeta, MachineListKind)
	wrong = append(wrong, list.Defaults.validate(field.NewPath("defaults"))...)
	wrong = append(wrong, complete(list.Machines, field.NewPath("machines"), list.Defaults, defaults)...)
	errs := strict.Merge(decoded, wrong)
	for _, err := range errs {
		err.Field = shown + ": " + err.Field
	}
	for i := range list.Machines {
		list.Machines[i].Origin = shown + ": " + list.Machines[i].Origin
	}
	return list.Machines, errs
}

// withoutUnknownValues leaves out the values of unknown fields: somebody may have tried to write a password there, and errors are
// logged.
func withoutUnknownValues(errs field.ErrorList) field.ErrorList {
	for _, err := range errs {
		if strings.HasPrefix(err.Detail, strict.UnknownField) {
			err.BadValue = field.OmitValueType{}
		}
	}
	return errs
}

// resolve makes a path of a file in dir absolute.
func resolve(path, dir string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// resolveFiles makes the paths in every field absolute whose name in the file ends in File.
func resolveFiles(value reflect.Value, dir string) {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			resolveFiles(value.Elem(), dir)
		}
	case reflect.Slice:
		for i := range value.Len() {
			resolveFiles(value.Index(i), dir)
		}
	case reflect.Struct:
		for fieldType, fieldValue := range value.Fields() {
			name, _, _ := strings.Cut(fieldType.Tag.Get("json"), ",")
			switch {
			case !fieldType.IsExported():
			case fieldValue.Kind() == reflect.String && strings.HasSuffix(name, "File"):
				fieldValue.SetString(resolve(fieldValue.String(), dir))
			default:
				resolveFiles(fieldValue, dir)
			}
		}
	}
}

// look is one file that was read, or one path at which lists were looked for.
type look struct {
	path string
	list bool
}

// digest returns what the digest of loading would be if the same files were looked at: the cheap way to see that nothing has
// changed. What else would be looked at is named by one of them.
func digest(looks []look) string {
	again := &files{sum: sha256.New()}
	for _, look := range looks {
		if look.list {
			_, _ = again.lists(look.path)
		} else {
			_, _ = again.read(look.path)
		}
	}
	return again.digest()
}

// files reads files and remembers which, and what was in them.
type files struct {
	watched []string
	looks   []look
	sum     hash.Hash
}

// read reads a file.
func (f *files) read(path string) ([]byte, error) {
	f.watched = append(f.watched, filepath.Dir(path))
	f.looks = append(f.looks, look{path: path})
	data, err := os.ReadFile(path)
	_, _ = fmt.Fprintf(f.sum, "%q %q %v\n", path, data, err)
	return data, err
}

// errNoLists is why a folder without lists is an error: it is what a volume looks like that was not mounted, and the machines that
// seem to be gone would lose their nodes.
var errNoLists = errors.New("there is no file *.yaml, *.yml or *.json in this folder")

// lists returns the path itself, or the files in the folder that it names, sorted. Hidden files and folders are left out: the
// kubelet keeps the versions of a ConfigMap in such.
func (f *files) lists(path string) ([]string, error) {
	f.watched = append(f.watched, filepath.Dir(path))
	f.looks = append(f.looks, look{path: path, list: true})
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
		extension := filepath.Ext(entry.Name())
		if strings.HasPrefix(entry.Name(), ".") || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, extension) {
			continue
		}
		found = append(found, filepath.Join(path, entry.Name()))
	}
	_, _ = fmt.Fprintf(f.sum, "%q holds %q\n", path, found)
	if len(found) == 0 {
		return nil, errNoLists
	}
	return found, nil
}

// folders returns where changes have to be looked for.
func (f *files) folders() []string {
	slices.Sort(f.watched)
	return slices.Compact(f.watched)
}

func (f *files) digest() string { return string(f.sum.Sum(nil)) }
