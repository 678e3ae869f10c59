package stage

import _ "embed"

// referenceRights are what the reference may do.
//
//go:embed rbac-reference.yaml
var referenceRights []byte
