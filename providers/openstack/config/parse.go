package config

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/gcfg/v2"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/internal/message"
)

// maxShown is how many bytes of a name or a value an error shows.
const maxShown = 200

// ignored are sections that upstream's manager has documented and that mean nothing to it.
var ignored = []string{"BlockStorage"}

// retired are options that managers before upstream's v1.26 had, by section and option in lower case, and why they mean nothing.
var retired = map[string]string{
	"loadbalancer.use-octavia": "Octavia is always used",
}

// parsed is what a file says, before it is validated.
type parsed struct {
	config Config
	errs   field.ErrorList
	// given are the options that were given. One that has a single value is given once: the routes of a cluster are in one router.
	given map[string]bool
	// misfits are the options whose values did not fit, which are not said to be missing then.
	misfits map[string]bool
}

// parse reads the format of git's config files, which upstream's manager reads cloud.conf by: names in any case, values with quotes
// and escapes, an option without "=" for true. Everything that does not fit is reported, but after a mistake in the format nothing is
// known of what follows.
func parse(data []byte) parsed {
	p := parsed{config: Defaults(), misfits: map[string]bool{}, given: map[string]bool{}}
	err := gcfg.ReadWithCallback(bytes.NewReader(bytes.TrimPrefix(data, []byte("\ufeff"))), func(section, sub, key, value string, blank bool) error {
		p.take(section, sub, key, value, blank)
		return nil
	})
	if err != nil {
		p.errs = append(p.errs, field.Invalid(field.NewPath("(line:column)"), field.OmitValueType{}, message.Line(err.Error(), maxShown)))
	}
	return p
}

// take takes one option, or the beginning of a section, whose key is empty.
func (p *parsed) take(section, sub, key, value string, blank bool) {
	at := pathOf(section, sub, key)
	target, name, known := sectionOf(&p.config, section)
	switch {
	case slices.ContainsFunc(ignored, func(s string) bool { return strings.EqualFold(s, section) }):
		if key == "" {
			p.warn("[%s] is ignored: the cloud controller manager has nothing to do with volumes", section)
		}
		return
	case !known:
		if key == "" {
			p.errs = append(p.errs, field.Invalid(at, field.OmitValueType{}, "unknown section; known are "+strings.Join(sectionNames(), ", ")))
		}
		return
	case target.Kind() == reflect.Map:
		p.takeClass(at, target, sub, key, value, blank)
		return
	case sub != "":
		if key == "" {
			p.errs = append(p.errs, field.Invalid(at, field.OmitValueType{}, fmt.Sprintf("[%s] has no name behind it", name)))
		}
		return
	case key == "":
		return
	}
	if why, gone := retired[strings.ToLower(section+"."+key)]; gone {
		p.warn("%s is ignored: %s", at, why)
		return
	}
	p.set(at, target, key, value, blank)
}

// takeClass takes an option of [LoadBalancerClass "NAME"].
func (p *parsed) takeClass(at *field.Path, classes reflect.Value, name, key, value string, blank bool) {
	if classes.IsNil() {
		classes.Set(reflect.MakeMap(classes.Type()))
	}
	if name == "" {
		if key == "" {
			p.errs = append(p.errs, field.Required(at, `the name of the class: [LoadBalancerClass "NAME"]`))
		}
		return
	}
	class := reflect.New(classes.Type().Elem()).Elem()
	if there := classes.MapIndex(reflect.ValueOf(name)); there.IsValid() {
		class.Set(there)
	}
	if key != "" {
		p.set(at, class, key, value, blank)
	}
	classes.SetMapIndex(reflect.ValueOf(name), class)
}

// set gives an option of a section its value.
func (p *parsed) set(at *field.Path, section reflect.Value, key, value string, blank bool) {
	for declared, option := range section.Fields() {
		if !strings.EqualFold(declared.Tag.Get("conf"), key) {
			continue
		}
		if p.given[at.String()] && option.Kind() != reflect.Slice {
			p.errs = append(p.errs, field.Invalid(at, field.OmitValueType{}, "is given twice, and takes one value"))
			return
		}
		p.given[at.String()] = true
		if err := decode(option, value, blank); err != nil {
			var shown any = message.Line(value, maxShown)
			if option.Type() == reflect.TypeFor[Secret]() || blank {
				shown = field.OmitValueType{}
			}
			p.misfits[at.String()] = true
			p.errs = append(p.errs, field.Invalid(at, shown, err.Error()))
		}
		return
	}
	// The value is not shown: the operator may have meant to set a password.
	p.errs = append(p.errs, field.Invalid(at, field.OmitValueType{}, unknownOption+"; known here are "+strings.Join(optionNames(section.Type()), ", ")))
}

// unknownOption begins what is said of an option that a section does not have.
const unknownOption = "unknown option"

func (p *parsed) warn(format string, arguments ...any) {
	p.config.Warnings = append(p.config.Warnings, fmt.Sprintf(format, arguments...))
}

var errNoValue = errors.New("needs a value: NAME = VALUE")

// decode gives a field the value that is written. An option without a value is a boolean that is true, or a list that is empty.
func decode(into reflect.Value, value string, blank bool) error {
	switch target := into.Addr().Interface().(type) {
	case *bool:
		on, err := boolean(value)
		if err == nil || blank {
			*target = on || blank
			return nil
		}
		return err
	case *[]string:
		return decodeStrings(target, value, blank)
	case *[]netip.Prefix:
		return decodePrefixes(target, value)
	}
	if blank {
		return errNoValue
	}
	switch target := into.Addr().Interface().(type) {
	case *string:
		*target = value
	case *Secret:
		*target = Secret(value)
	case *int:
		number, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil {
			return errors.New("must be a whole number")
		}
		*target = number
	case *time.Duration:
		return decodeDuration(target, value)
	default:
		return fmt.Errorf("is of a type that cannot be read: %T", target)
	}
	return nil
}

// boolean reads the words that git's config files have for true and false.
func boolean(value string) (bool, error) {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	default:
		return false, errors.New("must be true or false")
	}
}

// decodeStrings appends: an option of several values is given several times.
func decodeStrings(target *[]string, value string, blank bool) error {
	if blank {
		*target = nil
		return nil
	}
	if value != "" {
		*target = append(*target, value)
	}
	return nil
}

func decodePrefixes(target *[]netip.Prefix, value string) error {
	var prefixes []netip.Prefix
	var wrong []string
	for text := range strings.SplitSeq(value, ",") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			wrong = append(wrong, strconv.Quote(message.Line(text, maxShown)))
			continue
		}
		prefixes = append(prefixes, prefix.Masked())
	}
	if len(wrong) > 0 {
		return fmt.Errorf("must be CIDRs such as 10.0.0.0/8, separated by commas; not one: %s", strings.Join(wrong, ", "))
	}
	*target = prefixes
	return nil
}

// decodeDuration takes durations, as upstream's manager does, and whole seconds, as its documentation says.
func decodeDuration(target *time.Duration, value string) error {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.Atoi(value); err == nil && seconds >= 0 && seconds <= int(24*time.Hour/time.Second) {
		*target = time.Duration(seconds) * time.Second
		return nil
	}
	duration, err := time.ParseDuration(value)
	if err != nil || duration < 0 {
		return errors.New("must be a duration such as 5s or 1m, or a number of seconds")
	}
	*target = duration
	return nil
}
