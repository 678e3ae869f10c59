package config

import "k8s.io/apimachinery/pkg/util/validation/field"

// BGP is the speaker.
type BGP struct{}

func (b *BGP) setDefaults() {}

func (b *BGP) validate(*field.Path) field.ErrorList { return nil }
