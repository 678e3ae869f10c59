package ccm

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

// Option changes the program that NewCommand and Main build.
type Option func(*program)

// program is what the options of a main function amount to.
type program struct {
	controllers registry
	// providers are the ones that the program builds itself, by the value of --cloud-provider.
	providers map[string]ProviderFunc
	flags     []Flags
	// defaults are the program's own, by the name of the flag.
	defaults map[string]string
	// mistakes are the author's.
	mistakes []error
}

// newProgram applies the options in their order.
func newProgram(options []Option) *program {
	p := &program{controllers: builtin(), providers: map[string]ProviderFunc{}, defaults: map[string]string{}}
	for _, option := range options {
		option(p)
	}
	return p
}

// validate returns all that is wrong with the program, whatever its command line.
func (p *program) validate() error {
	return joined("mistakes in this program", append(p.mistakes, p.controllers.validate()...)...)
}

// mistaken notes a mistake.
func (p *program) mistaken(format string, values ...any) {
	p.mistakes = append(p.mistakes, fmt.Errorf(format, values...))
}

// WithController adds a controller to those of this module. Given several times, it adds several. Its name must be new:
// ReplaceController puts one in the place of another.
func WithController(controller Controller) Option {
	return func(p *program) { p.controllers = append(p.controllers, controller) }
}

// ReplaceController puts a controller in the place of the one of the same name, such as a vendor's own "service-lb-controller" from
// k8s.io/cloud-provider/names. The flags of the replaced one that the reference does not have are gone with it.
func ReplaceController(controller Controller) Option {
	return func(p *program) {
		i := p.find("ReplaceController", controller.Name)
		switch {
		case i < 0:
		case p.controllers[i].Name != controller.Name:
			p.mistaken("ReplaceController: %q is an alias; the name is %q", controller.Name, p.controllers[i].Name)
		default:
			p.controllers = slices.Clone(p.controllers)
			p.controllers[i] = controller
		}
	}
}

// RemoveController removes controllers by name or alias: the program does not contain them. To name one of them in --controllers is an
// error then, and "*" does not mean it.
func RemoveController(controllers ...string) Option {
	return func(p *program) {
		for _, name := range controllers {
			if i := p.find("RemoveController", name); i >= 0 {
				p.controllers = slices.Delete(slices.Clone(p.controllers), i, i+1)
			}
		}
	}
}

// DisableController makes "*" in --controllers not mean these controllers, by name or alias. Named there, they run.
func DisableController(controllers ...string) Option {
	return func(p *program) {
		for _, name := range controllers {
			if i := p.find("DisableController", name); i >= 0 {
				p.controllers = slices.Clone(p.controllers)
				p.controllers[i].DisabledByDefault = true
			}
		}
	}
}

// find returns the index of a controller by its name or alias, or notes a mistake of the option and returns -1.
func (p *program) find(option, name string) int {
	canonical := name
	if stands, found := p.controllers.aliases()[name]; found {
		canonical = stands
	}
	i := slices.IndexFunc(p.controllers, func(c Controller) bool { return c.Name == canonical })
	if i < 0 {
		p.mistaken("%s: there is no controller %q; this program has %v", option, name, p.controllers.contained())
	}
	return i
}

// WithProvider builds the cloud provider that --cloud-provider=name means by a function of the program, instead of by a factory that a
// package has registered. It is for a provider whose constructor needs more than the cloud config, and for one whose settings
// are flags. Given several times with other names, the program has several providers.
func WithProvider(name string, build ProviderFunc) Option {
	return func(p *program) {
		_, taken := p.providers[name]
		switch {
		case name == "" || name == externalProvider:
			p.mistaken("WithProvider: %q is no name of a provider", name)
		case build == nil:
			p.mistaken("WithProvider: provider %q has no function that builds it", name)
		case taken:
			p.mistaken("WithProvider: provider %q is given twice", name)
		default:
			p.providers[name] = build
		}
	}
}

// externalProvider is the value of --cloud-provider for kubelets, which is no provider.
const externalProvider = "external"

// Flags are flags of a program, such as settings of its provider. Those of one controller belong to the Controller instead.
type Flags struct {
	// Section is the heading in --help.
	Section string
	// Add defines the flags.
	Add func(*pflag.FlagSet)
	// Validate returns what is wrong with their values, all of it at once. Nil: nothing can be.
	Validate func() []error
}

// WithFlags adds flags of the program's own. A flag that the command has already is an error when the program starts: WithDefaults
// changes its default.
func WithFlags(flags Flags) Option {
	return func(p *program) {
		if flags.Section == "" || flags.Add == nil {
			p.mistaken("WithFlags: Section and Add are required (section %q)", flags.Section)
			return
		}
		p.flags = append(p.flags, flags)
	}
}

// WithDefaults gives flags of the command another default, by their names without dashes: {"cloud-provider": "mycloud"}. --help
// shows it, and what a command line says wins: it replaces the whole value, of a list too. A flag that does not exist or does not take the
// value is an error when the program starts.
func WithDefaults(defaults map[string]string) Option {
	return func(p *program) { maps.Copy(p.defaults, defaults) }
}

// showDefaults shows the program's defaults in the help.
func (p *program) showDefaults(sections cliflag.NamedFlagSets) {
	for name, value := range p.defaults {
		if flag := lookup(sections, name); flag != nil {
			flag.DefValue = value
		}
	}
}

// applyDefaults sets the flags that the command line leaves alone to the program's defaults. It comes after the command line: a list
// that is set twice is one list in most types of flags.
func (p *program) applyDefaults(flags *pflag.FlagSet) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(p.defaults)) {
		flag := flags.Lookup(name)
		switch {
		case flag == nil:
			errs = append(errs, fmt.Errorf("WithDefaults: there is no flag --%s", name))
		case flag.Changed:
		default:
			if err := flag.Value.Set(p.defaults[name]); err != nil {
				errs = append(errs, fmt.Errorf("WithDefaults: --%s=%s: %w", name, p.defaults[name], err))
			}
		}
	}
	return joined("mistakes in this program", errs...)
}

// validateFlags returns what is wrong with the values of the program's own flags.
func (p *program) validateFlags() []error {
	var errs []error
	for _, flags := range p.flags {
		if flags.Validate != nil {
			errs = append(errs, flags.Validate()...)
		}
	}
	return errs
}
