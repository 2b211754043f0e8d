//go:build tools

// Names the program that `make cert-manager` builds, so that go.mod holds what it needs.
package tools

import _ "github.com/cert-manager/cert-manager/cmd/controller"
