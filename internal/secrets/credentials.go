package secrets

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// endings are how names of credentials end, without capitals and separators: password, aadClientSecret, application-credential-secret,
// HCLOUD_TOKEN, secretAccessKey. One that ends otherwise names something else: passwordFile, secret-namespace, accessKeyID.
var endings = []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "secretkey", "privatekey"}

var separators = strings.NewReplacer("-", "", "_", "", ".", "")

// namesCredential reports whether a key or a variable of this name holds a credential.
func namesCredential(name string) bool {
	name = separators.Replace(strings.ToLower(strings.TrimSpace(name)))
	return slices.ContainsFunc(endings, func(ending string) bool { return strings.HasSuffix(name, ending) })
}

// credentials returns the values of keys that name one, in a config of YAML, JSON or INI: plugins have all of them.
func credentials(content []byte) []string {
	var document yaml.Node
	if readYAML(content, &document) == nil && len(document.Content) == 1 && document.Content[0].Kind == yaml.MappingNode {
		return fromYAML(document.Content[0], false, nil)
	}
	return fromINI(string(content))
}

// errBroken is a document over which the library has panicked.
var errBroken = errors.New("the document cannot be read")

// readYAML reads a document. The library panics over some that are broken.
func readYAML(content []byte, into *yaml.Node) (err error) {
	defer func() {
		if recover() != nil {
			err = errBroken
		}
	}()
	return yaml.Unmarshal(content, into)
}

// fromYAML adds the credentials below a node. If the node belongs to a key that names a credential, it adds all values. It reads the content of an
// alias where it is defined, and also here if it is one value.
func fromYAML(node *yaml.Node, secret bool, found []string) []string {
	switch node.Kind {
	case yaml.ScalarNode:
		if secret {
			found = append(found, node.Value)
		}
	case yaml.AliasNode:
		if secret && node.Alias != nil && node.Alias.Kind == yaml.ScalarNode {
			found = append(found, node.Alias.Value)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			found = fromYAML(node.Content[i+1], namesCredential(node.Content[i].Value), found)
		}
	case yaml.SequenceNode, yaml.DocumentNode:
		for _, element := range node.Content {
			found = fromYAML(element, secret, found)
		}
	}
	return found
}

// setting is a line NAME = VALUE, as git's configs have it.
var setting = regexp.MustCompile(`(?m)^[ \t]*([A-Za-z][\w.-]*)[ \t]*[=:][ \t]*(.*?)[ \t\r]*$`)

// fromINI returns values with and without their quotes and what may be a comment behind them.
func fromINI(text string) (found []string) {
	for _, line := range setting.FindAllStringSubmatch(text, -1) {
		if !namesCredential(line[1]) {
			continue
		}
		value := line[2]
		found = append(found, value)
		if at := strings.IndexAny(value, ";#"); at > 0 && !strings.HasPrefix(value, `"`) {
			value = strings.TrimSpace(value[:at])
			found = append(found, value)
		}
		if quoted, is := strings.CutPrefix(value, `"`); is {
			if end := strings.LastIndex(quoted, `"`); end >= 0 {
				quoted = quoted[:end]
			}
			found = append(found, quoted, strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n", `\t`, "\t").Replace(quoted))
		}
	}
	return found
}
