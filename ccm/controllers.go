package ccm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cloud-provider/names"
	genericapp "k8s.io/controller-manager/app"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Controller is one entry in the list of controllers that the manager runs.
type Controller struct {
	// Name is the controller's name in --controllers, logs and health checks: a DNS label such as "cloud-node-controller".
	Name string
	// Aliases are older names that --controllers accepts as well.
	Aliases []string
	// ClientName is the identity with which the controller writes: with --use-service-account-credentials the ServiceAccount
	// of this name in kube-system, otherwise only the user agent. Empty: Name.
	ClientName string
	// DisabledByDefault says that "*" in --controllers does not mean this controller.
	DisabledByDefault bool
	// AddFlags adds the controller's own flags. Nil: it has none.
	AddFlags func(*pflag.FlagSet)
	// Validate returns what is wrong with the values of those flags, all of it at once. It is called if the controller is
	// enabled. Nil: nothing can be.
	Validate func() []error
	// Grants are the rights that the controller needs. They are asked for at start-up, and a missing one ends it.
	Grants []Grant
	// Port returns the flag and the value of a port that the controller serves itself. One that is taken, by the secure port or by another
	// controller, ends the start-up. Nil: it serves none.
	Port func() (flag string, port int)
	// managerGrants are rights that the manager's own identity needs on behalf of this controller. Nil: none.
	managerGrants func(*config) []Grant
	// Cached restricts what the cache of Environment.Manager holds of a type, to what a selector of fields selects. It holds for every controller
	// that reads the type, so it is for types that no other one does. Nil: all is held.
	Cached map[client.Object]fields.Selector
	// New builds the controller. It is called on every replica, before the caches start: it sets up watches, and must not call
	// the cloud, because this replica may never lead. An error ends the start-up.
	//
	// What it returns is started when this replica leads and the plugin is initialized. If it has a method
	// Warmup(context.Context) error, that is called at once, on standbys too, and this replica is ready when it has returned.
	// If it has a method Check(*http.Request) error, that is the controller's health check. It may be nil if New has added
	// everything to the environment's Manager, for which the same holds; health checks can be added there, too.
	New func(context.Context, Environment) (manager.Runnable, error)
}

// clientName returns the identity of the controller.
func (c Controller) clientName() string { return cmp.Or(c.ClientName, c.Name) }

// builtin returns the controllers that this build contains. To add one is to add a line.
func builtin() []Controller {
	return []Controller{
		nodeController(),
		nodeLifecycleController(),
		routeController(),
		serviceController(),
	}
}

// referenceControllers are the names that the reference cloud controller manager knows, whether this build contains such a
// controller or not: a command line written for the reference is understood, and answered.
func referenceControllers() []string {
	return []string{names.CloudNodeController, names.CloudNodeLifecycleController, names.NodeRouteController, names.ServiceLBController}
}

// registry is the list of controllers that this program contains.
type registry []Controller

// known returns all names that --controllers accepts, in alphabetical order.
func (r registry) known() []string {
	known := sets.New(referenceControllers()...)
	for _, controller := range r {
		known.Insert(controller.Name)
	}
	return sets.List(known)
}

// contained returns the names of the controllers, in alphabetical order.
func (r registry) contained() []string {
	names := make([]string, 0, len(r))
	for _, controller := range r {
		names = append(names, controller.Name)
	}
	slices.Sort(names)
	return names
}

// aliases returns the other names that --controllers accepts, each with the name that it stands for.
func (r registry) aliases() map[string]string {
	aliases := names.CCMControllerAliases()
	for _, controller := range r {
		for _, alias := range controller.Aliases {
			aliases[alias] = controller.Name
		}
	}
	return aliases
}

// disabledByDefault returns the controllers that "*" does not enable.
func (r registry) disabledByDefault() []string {
	var disabled []string
	for _, controller := range r {
		if controller.DisabledByDefault {
			disabled = append(disabled, controller.Name)
		}
	}
	slices.Sort(disabled)
	return disabled
}

// selected splits what --controllers asks for, in canonical names: the controllers to run, and the reference's controllers that this build lacks.
// Asking for a missing one by name is an error; "*" merely includes it.
func (r registry) selected(list []string) (enabled []Controller, absent []string, err error) {
	disabled := sets.NewString(r.disabledByDefault()...)
	contained := sets.New(r.contained()...)
	for _, controller := range r {
		if genericapp.IsControllerEnabled(controller.Name, disabled, list) {
			enabled = append(enabled, controller)
		}
	}
	var demanded []string
	for _, name := range referenceControllers() {
		switch {
		case contained.Has(name) || !genericapp.IsControllerEnabled(name, disabled, list):
		case slices.Contains(list, name):
			demanded = append(demanded, name)
		default:
			absent = append(absent, name)
		}
	}
	if len(demanded) > 0 {
		return nil, nil, fmt.Errorf("--controllers names %s, which this build does not contain; it contains %s",
			strings.Join(demanded, ", "), strings.Join(sets.List(contained), ", "))
	}
	return enabled, absent, nil
}

// validate returns what is wrong with the entries themselves: mistakes of the program's author.
func (r registry) validate() []error {
	var errs []error
	taken := map[string]string{}
	take := func(name, controller string) {
		if owner, found := taken[name]; found {
			errs = append(errs, fmt.Errorf("controller %q: the name or alias %q belongs to %q already", controller, name, owner))
		}
		taken[name] = controller
	}
	for _, controller := range r {
		for _, problem := range validation.IsDNS1123Label(controller.Name) {
			errs = append(errs, fmt.Errorf("controller name %q: %s", controller.Name, problem))
		}
		if controller.New == nil {
			errs = append(errs, fmt.Errorf("controller %q has no New", controller.Name))
		}
		take(controller.Name, controller.Name)
		for _, alias := range controller.Aliases {
			take(alias, controller.Name)
		}
	}
	for alias, name := range names.CCMControllerAliases() {
		if owner, found := taken[alias]; found && owner != name {
			errs = append(errs, fmt.Errorf("controller %q: the name or alias %q belongs to %q in the reference", owner, alias, name))
		}
	}
	return errs
}
