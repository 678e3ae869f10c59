// Package image writes programs as an OCI image: a tarball with an image layout that container engines and registries take,
// made without a container engine, a base image or root. The same input gives the same bytes, on any machine.
//
// What is in the image: the program, root certificates, the user and group 65532, a /tmp, and a list of the modules that the
// program was built from. There is no shell and no libc: the program must be linked statically.
package image
