package config

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/internal/message"
)

// sectionOf returns the field of a config that holds a section, and the section's name as it is documented.
func sectionOf(config *Config, section string) (reflect.Value, string, bool) {
	for declared, value := range reflect.ValueOf(config).Elem().Fields() {
		if name := declared.Tag.Get("conf"); name != "" && strings.EqualFold(name, section) {
			return value, name, true
		}
	}
	return reflect.Value{}, "", false
}

func sectionNames() []string {
	return optionNames(reflect.TypeFor[Config]())
}

// optionNames are the names of the fields of a struct as the file has them.
func optionNames(of reflect.Type) []string {
	var names []string
	for declared := range of.Fields() {
		if name := declared.Tag.Get("conf"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// pathOf is how errors name a section or an option of it: [LoadBalancerClass "gold"].subnet-id, with the names as they are documented
// where there are such.
func pathOf(section, sub, key string) *field.Path {
	shown := section
	if value, name, known := sectionOf(&Config{}, section); known {
		shown = name
		of := value.Type()
		if of.Kind() == reflect.Map {
			of = of.Elem()
		}
		for _, option := range optionNames(of) {
			if strings.EqualFold(option, key) {
				key = option
			}
		}
	}
	shown = message.Line(shown, maxShown)
	if sub != "" {
		shown = fmt.Sprintf("%s %q", shown, message.Line(sub, maxShown))
	}
	path := field.NewPath("[" + shown + "]")
	if key != "" {
		path = path.Child(message.Line(key, maxShown))
	}
	return path
}
