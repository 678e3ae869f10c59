package config

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/providers/internal/configsource"
)

// Examination is what is to be said of a cloud config without a process that uses it.
type Examination struct {
	// Errors are why Load would not take it.
	Errors field.ErrorList
	// Warnings are what Load takes although it is hardly meant, and what cannot be known here.
	Warnings []Warning
	// Files are the files that the config names and that are read later, such as files of passwords, in the order of their fields. The
	// files of inventory.paths are not among them: they are a part of the config, and Errors says what is wrong with them.
	Files []NamedFile
}

// Warning says what is suspicious in a config that is valid.
type Warning struct {
	// Field is the path of the field.
	Field string
	// Message says what follows from it, and what to do.
	Message string
}

// NamedFile is a file that a field of the config names.
type NamedFile struct{ Field, Path string }

// Examine says everything about the cloud config in data. Relative paths in it are relative to dir.
func Examine(data []byte, dir string) Examination {
	config, errs := decode(configsource.NewFiles(), data, dir)
	var named named
	named.add(reflect.ValueOf(config.Inventory.Defaults), field.NewPath("inventory", "defaults")) // before what inherits it
	named.add(reflect.ValueOf(config), nil)
	found := Examination{Errors: errs, Files: named}
	if len(errs) == 0 {
		found.Warnings = config.Warnings()
	}
	return found
}

// ExamineMachineList says everything about the list of machines in data, by itself: a default of the cloud config that names it is
// not known. Relative paths in it are relative to dir.
func ExamineMachineList(data []byte, dir string) Examination {
	inherited := &Credentials{Username: "of the cloud config", PasswordFile: "of the cloud config"}
	machines, errs := parseList(data, "", dir, MachineDefaults{BMC: BMCDefaults{Credentials: inherited}})
	for _, err := range errs {
		err.Field = strings.TrimPrefix(err.Field, ": ")
	}
	for i := range machines {
		machines[i].Origin = strings.TrimPrefix(machines[i].Origin, ": ")
		if bmc := machines[i].BMC; bmc != nil && bmc.Credentials == inherited {
			bmc.Credentials = nil
		}
	}
	errs = append(errs, validateUnique(machines)...)
	var named named
	named.add(reflect.ValueOf(machines), field.NewPath("machines"))
	return Examination{Errors: errs, Files: named}
}

// Problem says why a file cannot be read here, or returns nil.
func (f NamedFile) Problem() error {
	file, err := os.Open(f.Path)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return err
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return errors.New("is a folder")
	}
	return nil
}

// named collects the files that fields name, each once.
type named []NamedFile

// add adds what the fields name whose name in the file ends in File.
func (n *named) add(value reflect.Value, at *field.Path) {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			n.add(value.Elem(), at)
		}
	case reflect.Slice:
		for i := range value.Len() {
			n.add(value.Index(i), at.Index(i))
		}
	case reflect.Struct:
		if machine, ok := value.Interface().(Machine); ok {
			at = field.NewPath(machine.Origin) // it may stand in another file
		}
		for fieldType, fieldValue := range value.Fields() {
			name, _, _ := strings.Cut(fieldType.Tag.Get("json"), ",")
			path := at
			if name != "" {
				path = childOf(at, name)
			}
			switch {
			case !fieldType.IsExported():
			case fieldValue.Kind() != reflect.String:
				n.add(fieldValue, path)
			case strings.HasSuffix(name, "File") && fieldValue.String() != "":
				n.addFile(NamedFile{Field: path.String(), Path: fieldValue.String()})
			}
		}
	}
}

func (n *named) addFile(file NamedFile) {
	if !slices.ContainsFunc(*n, func(known NamedFile) bool { return known.Path == file.Path }) {
		*n = append(*n, file)
	}
}

func childOf(path *field.Path, name string) *field.Path {
	if path == nil {
		return field.NewPath(name)
	}
	return path.Child(name)
}
