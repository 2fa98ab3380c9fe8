'''One harness for every study: declare experiments, claims and sections; it runs, resumes, judges and writes the page.

A study of 30 lines, ``benchmarks/noise.py``, run by ``python -m benchmarks.noise``::

    """Does the embedding of a circle survive noise?"""

    from dataclasses import dataclass

    import heatsketch as hs
    from heatsketch_paper.harness.evidence import below
    from heatsketch_paper.harness.experiment import Experiment
    from heatsketch_paper.harness.study import Study, frame_table, main, section


    @dataclass(frozen=True)
    class Noise(Experiment):
        """log L of a Gaussian process embedding in k dimensions, for growing noise."""

        sigmas: tuple[float, ...] = (0.0, 0.1)
        k: int = 8

        def trial(self, index):
            X = hs.datasets.circle(self.n_samples, self.points_seed(index))
            rng, rows = self.other_seed(index), []
            for sigma in self.sigmas:
                noisy = X + sigma * rng.normal(size=X.shape)
                model = hs.GaussianProcessEmbedding(self.k, random_state=self.sketch_seed(index)).fit(noisy)
                rows.append({"sigma": sigma, "log_L": model.distortion().log})
            return rows


    def claims(tables):
        noisy = tables["noise"].query("sigma == 0.1")
        yield "L stays below 20 at noise 0.1.", below({"log L": noisy["log_L"].to_numpy()}, 3.0)


    @section(["noise"], "Means over {trials} trials.")
    def means(tables):
        by_sigma = tables["noise"].groupby("sigma", as_index=False)["log_L"].mean()
        return frame_table(by_sigma, {"log_L": ".2f"})


    STUDY = Study("noise", "Noise, measured", "Circles with noise.", (Noise("noise", 300, 20, seed=7),), claims,
                  {"Means": means})
    if __name__ == "__main__":
        main(STUDY)

Results are files with a record of their origin: ``docs/noise/tables/noise.csv`` has the rows, ``noise.json`` the
parameters, versions, commands and machines. Finished trials are never repeated; results of other parameters are never
mixed.

`experiment`: what is computed, as trials or as named cases. `process`: measurements of time and memory in fresh
processes. `store`: the files. `runner`: trials in parallel. `evidence`: statistics of claims. `study`: the page and the
command line.
'''
