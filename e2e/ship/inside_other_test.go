//go:build !linux

package ship

import "testing"

func (image) runs(t *testing.T) {
	t.Helper()
	t.Skip("only Linux can run the image without a container runtime")
}
