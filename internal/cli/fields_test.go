package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
)

// Rows have the chosen members in the order of the flag, and null for one that they do not have. A word that names none
// is told with those that there are.
func TestJSONFields(t *testing.T) {
	t.Parallel()
	row := []byte(`{"id":"1","label":"a <b>","created_at":"2026-01-01T00:00:00Z","operator":true}`)
	for flag, want := range map[string]string{
		"all":              string(row),
		"label":            `{"label":"a <b>"}`,
		"label, id":        `{"label":"a <b>","id":"1"}`,
		"id,paused":        `{"id":"1","paused":null}`,
		"id,labels":        `--json: there is no field "labels"; there are id, label, `,
		"id,,label":        `"id,,label": fields with commas`,
		"":                 `"": fields with commas`,
		"id,<script>":      `--json: there is no field "<script>"; there are `,
		"operator,revoked": `--json: there is no field "revoked"`,
	} {
		var form jsonForm
		err := form.Set(flag)
		var got []byte
		if err == nil {
			got, err = chosen[adminapi.Key](form, row)
		}
		if err != nil {
			if !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%q: %v", flag, err)
			}
		} else if string(got) != want || !form.on || !json.Valid(got) {
			t.Errorf("%q: %s, want %s", flag, got, want)
		}
	}
	var off jsonForm
	if err := off.Set("false"); err != nil || off.on {
		t.Errorf("%v, %+v", err, off)
	}
}
