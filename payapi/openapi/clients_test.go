package openapi

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"testing"
)

// The vectors of the client libraries have every member that the document knows of a quote, its offers and a payment. So
// the libraries' types have them too.
func TestClientsKnowAllMembers(t *testing.T) {
	t.Parallel()
	var known struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any
				Items      struct{ Properties map[string]any }
			}
		}
	}
	if err := json.Unmarshal(document, &known); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../clients/testdata/api.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Quote, Payment map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	var offers []map[string]json.RawMessage
	if err := json.Unmarshal(vectors.Quote["offers"], &offers); err != nil {
		t.Fatal(err)
	}
	of := map[string]map[string]json.RawMessage{"Quote": vectors.Quote, "Payment": vectors.Payment, "Offers": {}}
	for _, offer := range offers {
		maps.Copy(of["Offers"], offer)
	}
	for name, members := range of {
		schema := known.Components.Schemas[name]
		want := slices.Sorted(maps.Keys(schema.Properties))
		if name == "Offers" {
			want = slices.Sorted(maps.Keys(schema.Items.Properties))
		}
		if got := slices.Sorted(maps.Keys(members)); len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s: the vectors have %q, and the document %q", name, got, want)
		}
	}
}
