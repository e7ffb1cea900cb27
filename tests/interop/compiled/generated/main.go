// Calls the API by the client that is generated from its description: URL TOKEN APP JOB RUN.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	warren "github.com/warren/client"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	configuration := warren.NewConfiguration()
	configuration.Servers = warren.ServerConfigurations{{URL: os.Args[1]}}
	configuration.AddDefaultHeader("Authorization", "Bearer "+os.Args[2])
	client := warren.NewAPIClient(configuration)
	ctx := context.Background()

	jobs, _, err := client.JobsAPI.JobsIndex(ctx).App(os.Args[3]).Execute()
	check(err)
	id, err := strconv.ParseInt(os.Args[5], 10, 64)
	check(err)
	found, _, err := client.RunsAPI.RunsShow(ctx, id).Execute()
	check(err)
	body := warren.NewTriggerBody()
	body.SetParam("from Go")
	begun, _, err := client.RunsAPI.RunsTrigger(ctx, os.Args[3], os.Args[4]).TriggerBody(*body).Execute()
	check(err)
	fmt.Println(jobs.Items[0].Name, found.Id, begun.Id)
}
