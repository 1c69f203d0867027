package cli

import (
	"strings"
	"testing"
)

func TestNodeAdvice(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"v20.20.2\n": "does not heed", "v22.20.9": "does not heed", "v23.11.0": "does not heed", "v8.0.0": "does not heed",
		"v24.0.0": "fetch only", "v24.4.1": "fetch only",
		"v22.21.0": "", "v22.22.1": "", "v24.5.0": "", "v25.0.0-nightly": "", "v26.5.1": "",
	} {
		major, minor, ok := readNodeVersion(text)
		if got := nodeAdvice(major, minor); !ok || (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %t, %q", text, ok, got)
		}
	}
	for _, text := range []string{"", "v", "20.1.2", "v20", "v20.1", "vx.y.z", "v-1.2.3", "usage: v1.2.3.4", "v1.2.3.4", "v99999999999999999999.1.0"} {
		if _, _, ok := readNodeVersion(text); ok {
			t.Errorf("%q is a version", text)
		}
	}
}
