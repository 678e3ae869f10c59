package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mooring-ccm/mooring/cmd/mooring/internal/managers"
)

// lease is the flag --lease: NAMESPACE/NAME.
type lease string

// addFlag adds the flag.
func (l *lease) addFlag(flags *pflag.FlagSet) {
	flags.StringVar((*string)(l), "lease", managers.DefaultNamespace+"/"+managers.DefaultLease,
		"`NAMESPACE/NAME` of the lease by which the manager elects its leader")
}

// parts returns the namespace and the name.
func (l *lease) parts() (namespace, name string, err error) {
	namespace, name, found := strings.Cut(string(*l), "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", fmt.Errorf("--lease: %q: must be NAMESPACE/NAME", string(*l))
	}
	return namespace, name, nil
}

// addSchemes adds the flag that says whose nodes the manager's are.
func addSchemes(flags *pflag.FlagSet, schemes *[]string) {
	flags.StringSliceVar(schemes, "provider-id-schemes", nil,
		"`schemes` of the provider IDs of the manager's own nodes; others are shown as foreign")
}
