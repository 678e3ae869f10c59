package names

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ReasonInvalidAnnotation is the reason of an event about AnnotationFaults.
const ReasonInvalidAnnotation = "InvalidAnnotation"

// annotations are those of Mooring that people or managers put on objects, by the kind of the object. True: the value is a boolean.
var annotations = map[string]map[string]bool{
	"Node": {
		"mooring.dev/ignore": true, "mooring.dev/confirm-deletion": false, "mooring.dev/proven": false,
		"metal.mooring.dev/drain": false, "metal.mooring.dev/out-of-service": false, "metal.mooring.dev/exclude-from-fencing": false,
	},
	"Service": {
		"metal.mooring.dev/load-balancer-ips": false, "metal.mooring.dev/address-pool": false, "metal.mooring.dev/allow-shared-ip": false,
	},
}

// AnnotationFaults returns what is wrong with the annotations of an object that begin with Mooring's domain: keys that have no meaning there, and values
// that are no boolean where one is needed.
func AnnotationFaults(kind string, values map[string]string) (faults []string) {
	var keys []string
	for key := range values {
		if domain, _, _ := strings.Cut(key, "/"); domain == "mooring.dev" || strings.HasSuffix(domain, ".mooring.dev") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	for _, key := range keys {
		boolean, known := annotations[kind][key]
		switch {
		case !known:
			faults = append(faults, fmt.Sprintf("the annotation %s has no meaning on a %s%s", key, kind, suggestion(kind, key)))
		case boolean:
			if _, err := strconv.ParseBool(values[key]); err != nil {
				faults = append(faults, fmt.Sprintf("the annotation %s is %q and has no effect: set it to true or false, or remove it", key, values[key]))
			}
		}
	}
	return faults
}

// suggestion says what may have been meant.
func suggestion(kind, key string) string {
	for other, known := range annotations {
		if _, found := known[key]; found && other != kind {
			return ": it belongs on a " + other
		}
	}
	keys := slices.Sorted(maps.Keys(annotations[kind]))
	nearest := slices.MinFunc(keys, func(a, b string) int { return distance(key, a) - distance(key, b) })
	if distance(key, nearest) <= farthest {
		return fmt.Sprintf("; did you mean %s?", nearest)
	}
	return "; known are " + strings.Join(keys, ", ")
}

// farthest is by how many letters a mistyped key may differ.
const farthest = 4

// distance is how many letters have to be added, removed or changed to make of one text the other (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
