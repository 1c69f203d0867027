package plainjson

import (
	"encoding/json"
	"testing"
)

// Markup stays readable, also in JSON that comes ready.
func TestMarshal(t *testing.T) {
	t.Parallel()
	got, err := Marshal(map[string]any{"a": "<b> & \"c\"\n", "raw": json.RawMessage(`"<d>"`)})
	if want := `{"a":"<b> & \"c\"\n","raw":"<d>"}`; err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	if got, err := Marshal(func() {}); err == nil || len(got) != 0 {
		t.Errorf("a function is %s", got)
	}
}
