package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/mooring-ccm/mooring/dev/docgen/flagdoc"
)

// flagTable is what becomes of the flags of the reference.
type flagTable struct {
	differs []string
	added   []string
}

// compareFlags says of each flag of the reference what becomes of it, by the tables of package flagdoc. A flag that is missing is an
// error.
func compareFlags(reference, ours *pflag.FlagSet) (table flagTable, err error) {
	defaults, notes := flagdoc.OtherDefaults(), flagdoc.Notes()
	reference.VisitAll(func(theirs *pflag.Flag) {
		flag := ours.Lookup(theirs.Name)
		if flag == nil {
			err = fmt.Errorf("there is no --%s, which the reference has", theirs.Name)
			return
		}
		if _, other := defaults[flag.Name]; other || notes[flag.Name] != "" {
			table.differs = append(table.differs, flag.Name)
		}
	})
	ours.VisitAll(func(flag *pflag.Flag) {
		if reference.Lookup(flag.Name) == nil {
			table.added = append(table.added, flag.Name)
		}
	})
	return table, err
}
