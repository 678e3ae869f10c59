package compare

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shortest is how much of a UID without dashes a plugin may leave in a name: GCE and AWS cut names, AWS to 31 letters of it.
const shortest = 31

// identities are the UIDs that were seen of objects, which are random, and the names that stand for them. An object that is
// gone lives on in the names of what it left in the cloud.
type identities struct {
	mu    sync.Mutex
	known map[string]string // by UID
}

func (i *identities) add(kind string, object metav1.ObjectMeta) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known == nil {
		i.known = map[string]string{}
	}
	i.known[string(object.UID)] = "<" + kind + " " + object.Name + ">"
}

// replacer replaces UIDs, with dashes and without, whole or cut.
func (i *identities) replacer() *strings.Replacer {
	i.mu.Lock()
	defer i.mu.Unlock()
	var pairs [][2]string
	for uid, name := range i.known {
		compact := strings.ReplaceAll(uid, "-", "")
		pairs = append(pairs, [2]string{uid, name}, [2]string{compact, name})
		if len(compact) > shortest {
			pairs = append(pairs, [2]string{compact[:shortest], name})
		}
	}
	// A replacer tries the first pair first.
	slices.SortFunc(pairs, func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(len(b[0]), len(a[0])), cmp.Compare(a[0], b[0]))
	})
	var flat []string
	for _, pair := range pairs {
		flat = append(flat, pair[:]...)
	}
	return strings.NewReplacer(flat...)
}
