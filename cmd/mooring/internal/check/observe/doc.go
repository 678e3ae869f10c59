// Package observe reads from an API server what package check looks at. It writes nothing but reviews of access, which are questions.
package observe
