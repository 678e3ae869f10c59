package config

import "k8s.io/apimachinery/pkg/util/validation/field"

// Announcement says which next hops an address gets.
type Announcement struct{}

func (a *Announcement) setDefaults() {}

func (a *Announcement) validate(*field.Path) field.ErrorList { return nil }

// L2 answers ARP and neighbour solicitations.
type L2 struct{}

func (l *L2) setDefaults() {}

func (l *L2) validate(*field.Path) field.ErrorList { return nil }
