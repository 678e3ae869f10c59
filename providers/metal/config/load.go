package config

import (
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/providers/internal/configsource"
	"github.com/mooring-ccm/mooring/providers/internal/strict"
)

// Source is a cloud config of this kind that follows its files.
type Source = configsource.Source[CloudConfig]

// format is how it is read, and what of a change a running process takes.
var format = configsource.Format[CloudConfig]{Provider: "metal", Read: read, ValidateChange: ValidateChange}

// Open loads the cloud config that a provider's factory is given, and follows it as configsource.Open says. It fails as Load does.
func Open(from io.Reader) (*Source, error) { return configsource.Open(format, from) }

// OpenFile loads the cloud config at path, as Open does with a file.
func OpenFile(path string) (*Source, error) { return configsource.OpenFile(format, path) }

// Load reads the cloud config at path and the lists of machines that it names. The error names everything that is wrong, with
// the path and the value of each field, and for a list its file.
func Load(path string) (*CloudConfig, error) { return format.Load(path) }

// Read reads a cloud config that has no file of its own, as Load does. Relative paths in it are relative to dir.
func Read(from io.Reader, dir string) (*CloudConfig, error) { return format.LoadFrom(from, dir) }

func read(files *configsource.Files, data []byte, dir string) (*CloudConfig, error) {
	config, errs := decode(files, data, dir)
	if len(errs) > 0 {
		return nil, fmt.Errorf("invalid cloud config: %w", errs.ToAggregate())
	}
	return config, nil
}

// decode returns the config in data with its defaults and the lists of machines that it names, and everything that is wrong with it.
func decode(files *configsource.Files, data []byte, dir string) (*CloudConfig, field.ErrorList) {
	config := &CloudConfig{}
	decoded := withoutUnknownValues(strict.YAML(data, config))
	resolveFiles(reflect.ValueOf(config), dir)
	inventory := &config.Inventory
	wrong := complete(inventory.Machines, field.NewPath("inventory", "machines"), inventory.Defaults)
	for i, path := range inventory.Paths {
		machines, errs := readLists(files, path, dir, field.NewPath("inventory", "paths").Index(i), inventory.Defaults)
		inventory.Machines = append(inventory.Machines, machines...)
		wrong = append(wrong, errs...)
	}
	config.setDefaults()
	return config, strict.Merge(decoded, append(wrong, config.validate()...))
}

// readLists returns the machines of the list at path, or of all lists in the folder at path.
func readLists(files *configsource.Files, path, dir string, at *field.Path, defaults MachineDefaults) ([]Machine, field.ErrorList) {
	absolute := resolve(path, dir)
	names, err := files.List(absolute, ".yaml", ".yml", ".json")
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
		data, err := files.Read(name)
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

// withoutUnknownValues leaves out the values of unknown fields: the operator may have meant to set a password, and errors are logged.
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
