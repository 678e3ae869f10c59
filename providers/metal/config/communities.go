package config

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// LargeCommunity is a community of three numbers (RFC 8092).
type LargeCommunity struct {
	// Global is an autonomous system's number.
	Global uint32
	// Local1 and Local2 mean what that autonomous system says.
	Local1, Local2 uint32
}

// String returns the community as in a configuration file.
func (c LargeCommunity) String() string { return fmt.Sprintf("%d:%d:%d", c.Global, c.Local1, c.Local2) }

// wellKnown are the communities that have a name in the registry of IANA.
var wellKnown = map[string]uint32{
	"graceful-shutdown":   0xFFFF0000, // RFC 8326
	"blackhole":           0xFFFF029A, // RFC 7999
	"no-export":           0xFFFFFF01, // RFC 1997
	"no-advertise":        0xFFFFFF02, // RFC 1997
	"no-export-subconfed": 0xFFFFFF03, // RFC 1997
	"no-peer":             0xFFFFFF04, // RFC 3765
}

// ParseCommunities returns the communities of a list, standard ones and large ones, in its order.
func (a BGPAttributes) ParseCommunities() (standard []uint32, large []LargeCommunity, err error) {
	for _, text := range a.Communities {
		if known, ok := wellKnown[text]; ok {
			standard = append(standard, known)
			continue
		}
		switch parts := strings.Split(text, ":"); len(parts) {
		case 2:
			numbers, err := parseNumbers(parts, 16)
			if err != nil {
				return nil, nil, fmt.Errorf("parse community %q: %w", text, err)
			}
			standard = append(standard, numbers[0]<<16|numbers[1])
		case 3:
			numbers, err := parseNumbers(parts, 32)
			if err != nil {
				return nil, nil, fmt.Errorf("parse community %q: %w", text, err)
			}
			large = append(large, LargeCommunity{Global: numbers[0], Local1: numbers[1], Local2: numbers[2]})
		default:
			return nil, nil, fmt.Errorf("parse community %q: neither two nor three numbers, nor a name", text)
		}
	}
	return standard, large, nil
}

func parseNumbers(parts []string, bits int) ([]uint32, error) {
	numbers := make([]uint32, len(parts))
	for i, part := range parts {
		number, err := strconv.ParseUint(part, 10, bits)
		if err != nil {
			return nil, err
		}
		numbers[i] = uint32(number)
	}
	return numbers, nil
}

func (a BGPAttributes) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, text := range a.Communities {
		at := path.Child("communities").Index(i)
		if wrong := validateCommunity(at, text); len(wrong) > 0 {
			errs = append(errs, wrong...)
		} else if seen[text] {
			errs = append(errs, field.Duplicate(at, text))
		}
		seen[text] = true
	}
	return errs
}

func validateCommunity(path *field.Path, text string) field.ErrorList {
	if _, _, err := (BGPAttributes{Communities: []string{text}}).ParseCommunities(); err != nil {
		return field.ErrorList{field.Invalid(path, text, `must be like "65000:100" with numbers up to 65535, `+
			`like "65000:1:2", a well-known name, or one of bgp.communityAliases`)}
	}
	return nil
}
