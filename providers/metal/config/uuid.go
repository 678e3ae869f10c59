package config

import (
	"slices"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateUUID refuses what is no UUID, and the values that firmware reports when it has none: many machines share them.
func validateUUID(path *field.Path, value string) field.ErrorList {
	parsed, err := uuid.Parse(value)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path, value, "must be a UUID such as 4c4c4544-0051-3510-8052-b4c04f4e3532")}
	case parsed == uuid.Nil || parsed == uuid.Max:
		return field.ErrorList{field.Invalid(path, value, "is what firmware says that has no UUID")}
	default:
		return nil
	}
}

// CanonicalUUID returns a spelling of a system UUID that is the same for both orders of the bytes of its first three fields, and
// whether it is a UUID. SMBIOS before 2.6 did not say which order is meant (SMBIOS 2.6, 7.2.1), and firmware, operating systems
// and management controllers show one or the other.
func CanonicalUUID(value string) (string, bool) {
	parsed, err := uuid.Parse(value)
	if err != nil {
		return "", false
	}
	swapped := parsed
	slices.Reverse(swapped[0:4])
	slices.Reverse(swapped[4:6])
	slices.Reverse(swapped[6:8])
	return min(parsed.String(), swapped.String()), true
}

// placeholders are UUIDs that many boards have: none, all bits, and the ones that makers of firmware leave for others to fill in.
var placeholders = []string{
	"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
	"03000200-0400-0500-0006-000700080009", "12345678-1234-5678-90ab-cddeefaabbcc",
}

// KnownUUID returns what CanonicalUUID does, and false also for UUIDs that many boards have: they identify none.
func KnownUUID(value string) (string, bool) {
	canonical, ok := CanonicalUUID(value)
	for _, placeholder := range placeholders {
		if shared, _ := CanonicalUUID(placeholder); ok && canonical == shared {
			return "", false
		}
	}
	return canonical, ok
}
