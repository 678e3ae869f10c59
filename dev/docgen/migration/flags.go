package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mooring-ccm/mooring/internal/flagannotation"
)

// flagRow is a flag of the reference that behaves differently here.
type flagRow struct{ name, difference string }

// flagTable is what becomes of the flags of the reference.
type flagTable struct {
	same    []string
	differs []flagRow
	added   []string
}

// compareFlags says of each flag of the reference what becomes of it, by the annotations of ours. A flag that is missing is an
// error.
func compareFlags(reference, ours *pflag.FlagSet) (table flagTable, err error) {
	reference.VisitAll(func(theirs *pflag.Flag) {
		flag := ours.Lookup(theirs.Name)
		if flag == nil {
			err = fmt.Errorf("there is no --%s, which the reference has", theirs.Name)
			return
		}
		var differences []string
		if reason := annotation(flag, flagannotation.Reason); reason != "" {
			differences = append(differences, fmt.Sprintf("default `%s`, not `%s`. %s", flag.DefValue, theirs.DefValue, reason))
		}
		if note := annotation(flag, flagannotation.Note); note != "" {
			differences = append(differences, note)
		}
		if len(differences) == 0 {
			table.same = append(table.same, flag.Name)
			return
		}
		table.differs = append(table.differs, flagRow{flag.Name, strings.Join(differences, ". ")})
	})
	ours.VisitAll(func(flag *pflag.Flag) {
		if reference.Lookup(flag.Name) == nil {
			table.added = append(table.added, flag.Name)
		}
	})
	return table, err
}

func annotation(flag *pflag.Flag, key string) string { return strings.Join(flag.Annotations[key], " ") }
